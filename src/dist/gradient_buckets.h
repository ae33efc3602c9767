#pragma once

#include <memory>
#include <optional>
#include <vector>

#include <torch/types.h>

#include "codec/spec.h"
#include "collective/compressed_reduce.h"
#include "dist/device_gradients.h"
#include "dist/negotiation.h"
#include "tensor/buckets.h"

namespace trireme::dist {

struct GradientBucketsOptions {
  codec::Spec compression;  ///< of float32 gradients
  collective::ReduceOp op = collective::ReduceOp::kAverage;
  std::size_t bucket_bytes = 4u << 20;
  std::vector<LaneRange> lanes = {};  ///< see collective::ReduceOptions
};

/// The gradients of a step in buckets of equal size: a bucket leaves as soon as all that lies in it is there, and all
/// before it have left. So the order is the same on all ranks whatever they use, and one request says all about it to
/// ranks that have joined.
///
/// What a GPU computes stays there where that is possible (DeviceGradients), and is summed once all of it is there. A
/// rank that is alone has nothing to send: its gradients stay where they are.
class GradientBuckets {
 public:
  /// Throws InvalidArgument if the ranks' parameters differ in size or type. A collective call.
  GradientBuckets(Negotiation& negotiation, std::vector<torch::Tensor> parameters, GradientBucketsOptions options);

  /// The gradient of parameter `i` is complete. At most once per step.
  void add(std::size_t i);

  /// The same for one that was written to `gradient(i)`, the memory in which it is sent; for gradients of lanes.
  void add_filled(std::size_t i);
  const torch::Tensor& gradient(std::size_t i) const { return places_[i].view; }

  /// Takes what was not added as it is (or zero), waits for the whole, and makes it the parameters' gradients.
  void finish();

  /// Whether something was added in this step.
  bool on_their_way() const { return added_any_; }

 private:
  /// A bucket on its way.
  struct Reduce {
    std::unique_ptr<collective::CompressedReduce> compressed;  // of float32
    collective::PendingOperation plain;                        // of the others
  };

  /// All gradients of one type.
  struct Block {
    DType dtype = DType::kF32;
    std::vector<std::size_t> members;             // parameters
    Buckets buckets;                              // of the members, by their number here
    std::shared_ptr<std::byte> memory;            // null: on the device, or nowhere
    std::size_t started = 0;                      // buckets, in this step
    std::optional<Negotiation::Outcome> outcome;  // of this step
    std::vector<Reduce> reduces;                  // by bucket; last: they work on the memory above
  };

  /// Where a parameter's gradient lies.
  struct Place {
    std::size_t block = 0;
    std::size_t member = 0;  // its number there
    torch::Tensor view;      // of the memory that is sent, in the parameter's shape; undefined for one who is alone
  };

  /// Nobody to send anything to.
  bool alone() const;
  void lay_out(torch::ScalarType type);
  void lay_out_memory(Block& block);
  void place_on_device();
  void give_back(std::size_t i);
  void start_ready();
  void start(Block& block, std::size_t bucket);
  void scale(Block& block);
  void begin_step();

  Negotiation& negotiation_;
  GradientBucketsOptions options_;
  std::vector<torch::Tensor> parameters_;
  std::vector<Block> blocks_;
  std::vector<Place> places_;  // by parameter
  std::unique_ptr<DeviceGradients> on_device_;
  bool added_any_ = false;
};

}  // namespace trireme::dist
