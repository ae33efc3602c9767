#pragma once

#include <memory>
#include <optional>
#include <vector>

#include <torch/types.h>

#include "codec/spec.h"
#include "collective/compressed_reduce.h"
#include "dist/negotiation.h"

namespace trireme::dist {

struct GradientPiecesOptions {
  codec::Spec compression;  ///< of float32 gradients
  collective::ReduceOp op = collective::ReduceOp::kAverage;
  std::size_t piece_bytes = 4u << 20;
};

/// The gradients of a step, one after the other in backward order, cut into pieces of equal size (parameters may lie
/// across a cut): a piece leaves as soon as all that lies in it is there, and all before it have left. So the order is
/// the same on all ranks whatever they use, and one request says all about it to who has joined.
class GradientPieces {
 public:
  /// Throws InvalidArgument if the ranks' parameters differ in size or type. A collective call.
  GradientPieces(Negotiation& negotiation, std::vector<torch::Tensor> parameters, GradientPiecesOptions options);

  /// The gradient of parameter `i` is complete. At most once per step.
  void add(std::size_t i);

  /// Takes what was not added as it is (or zero), waits for the whole, and makes it the parameters' gradients.
  void finish();

  /// Whether something was added in this step.
  bool on_their_way() const { return added_any_; }

 private:
  struct Piece {
    std::size_t first = 0;  // element of its block
    std::size_t count = 0;
    std::size_t missing = 0;                                   // gradients in it that are not there yet
    std::unique_ptr<collective::CompressedReduce> compressed;  // of float32
    collective::PendingOperation plain;                        // of the others
  };

  /// All gradients of one type.
  struct Block {
    DType dtype = DType::kF32;
    std::vector<std::size_t> members;  // parameters, in backward order
    std::shared_ptr<std::byte> memory;
    std::size_t count = 0;  // elements
    std::size_t piece = 0;  // elements of each but the last
    std::size_t started = 0;
    std::optional<Negotiation::Outcome> outcome;  // of this step
    std::vector<Piece> pieces;                    // last: they work on the memory above
  };

  /// Where a parameter's gradient lies.
  struct Place {
    std::size_t block = 0;
    std::size_t first = 0;
    torch::Tensor view;  // of that memory, in the parameter's shape
    bool there = false;  // in this step
  };

  void lay_out(torch::ScalarType type);
  void cut(Block& block);
  void start_ready();
  void start(Block& block, Piece& piece);
  void scale(Block& block);
  void begin_step();

  Negotiation& negotiation_;
  GradientPiecesOptions options_;
  std::vector<torch::Tensor> parameters_;
  std::vector<Block> blocks_;
  std::vector<Place> places_;  // by parameter
  bool added_any_ = false;
};

}  // namespace trireme::dist
