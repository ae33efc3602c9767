#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <torch/types.h>

#include "trireme/types.h"

#include "optim/update_config.h"
#include "optim/update_rule.h"

/// Our kernels (cuda/) on LibTorch's tensors. Where this build has none, `runs_on` is false, and so is all that is
/// named `can_...`; nothing else here may be called then. All of it works on the current stream of the tensors' device,
/// and does not wait.
namespace trireme::device {

/// Whether this build has kernels that run on this device.
bool runs_on(torch::Device device);

struct Normed {
  torch::Tensor sum;      ///< float32: x + branch; x itself where there is no branch
  torch::Tensor out;      ///< of the wanted type
  torch::Tensor mean;     ///< by row, float32
  torch::Tensor inverse;  ///< likewise
};

/// Whether `layer_norm` can be had for this x (and branch, which may be undefined), with a result of `type`; and with
/// this scale.
bool can_normalise(const torch::Tensor& x, const torch::Tensor& branch, torch::ScalarType type);
bool can_normalise(const torch::Tensor& x, const torch::Tensor& branch, const torch::Tensor& scale,
                   torch::ScalarType type);
Normed layer_norm(const torch::Tensor& x, const torch::Tensor& branch, const torch::Tensor& scale,
                  const torch::Tensor& offset, double epsilon, torch::ScalarType type);

struct NormGradients {
  torch::Tensor x, branch, scale, offset;
};
NormGradients layer_norm_backward(const torch::Tensor& of_out, const torch::Tensor& of_sum, const Normed& normed,
                                  const torch::Tensor& scale, bool with_branch);

/// Rows × classes, which may be a part of longer rows; targets are int64.
bool can_compare(const torch::Tensor& logits, const torch::Tensor& targets);
struct Entropy {
  torch::Tensor loss;     ///< by row, float32
  torch::Tensor log_sum;  ///< likewise
};
Entropy cross_entropy(const torch::Tensor& logits, const torch::Tensor& targets);

/// Replaces `logits` by their gradient, and what is beyond them in their rows by zero.
void cross_entropy_backward(torch::Tensor& logits, const torch::Tensor& targets, const torch::Tensor& log_sum,
                            const torch::Tensor& of_loss);

/// The loss by row, at once with the gradient, which replaces `logits`: that of a loss which will be multiplied by
/// `of_loss`. Where it was something else `rescale` corrects the gradient.
torch::Tensor cross_entropy_at_once(torch::Tensor& logits, const torch::Tensor& targets, float of_loss);
void rescale_entropy_gradient(torch::Tensor& gradient, const torch::Tensor& targets, float assumed,
                              const torch::Tensor& of_loss);

/// The sums of the columns of a matrix, float32; and `gradient` × GELU's slope at `before`, with the sums of its
/// columns.
bool can_sum_columns(const torch::Tensor& matrix);
torch::Tensor column_sums(const torch::Tensor& matrix);
std::pair<torch::Tensor, torch::Tensor> gelu_backward(const torch::Tensor& gradient, const torch::Tensor& before);

/// Updates parameters in one launch; knows where they, their gradients and their state are.
class Updates {
 public:
  virtual ~Updates() = default;

  /// One for each parameter: for the next `run`.
  virtual void prepare(std::span<const optim::UpdateConstants> constants) = 0;

  /// Gradients are multiplied by `gradient_scale`, whatever the constants say. The sooner it follows what it depends
  /// on, the less the device waits.
  virtual void run(float gradient_scale) = 0;
};

/// What a parameter consists of; memory of the device.
struct UpdatePart {
  float* parameters = nullptr;
  const float* gradient = nullptr;
  optim::StateArrays state = {};
  std::size_t elements = 0;
};
std::unique_ptr<Updates> make_updates(const optim::UpdateConfig& config, std::span<const UpdatePart> parts,
                                      torch::Device device);

/// A number that the device computes.
class PendingNumber {
 public:
  /// `on_host` will hold it once the current stream of the device has come so far.
  PendingNumber(torch::Tensor on_host, torch::Device device) : on_host_(std::move(on_host)), device_(device) {}

  double wait() const;

 private:
  torch::Tensor on_host_;
  torch::Device device_;
};

/// The sum of squares, in double precision.
PendingNumber sum_of_squares(std::span<const float> values, torch::Device device);

/// Memory of a device that other processes of this host can map. Zero at first.
class SharedMemory {
 public:
  static constexpr std::size_t kHandleBytes = 64;
  using Handle = std::array<std::byte, kHandleBytes>;

  virtual ~SharedMemory() = default;
  virtual std::span<float> floats() = 0;
  virtual Handle handle() const = 0;
};
std::shared_ptr<SharedMemory> allocate(std::size_t floats, torch::Device device);

/// Maps what another process has allocated. Throws IoError where that cannot be.
std::shared_ptr<SharedMemory> map(const SharedMemory::Handle& handle, std::size_t floats, torch::Device device);

/// Sums elements [begin, begin + count) of all `parts`, which belong to `lanes` of a tree over the last lane's end,
/// into each of them.
void sum_lanes(std::span<float* const> parts, std::span<const LaneRange> lanes, std::size_t begin, std::size_t count,
               torch::Device device);

/// Waits until all that was begun on the current stream has ended.
void synchronize(torch::Device device);

void copy_to_host(std::span<const float> from, std::span<float> to, torch::Device device);
void copy_to_device(std::span<const float> from, std::span<float> to, torch::Device device);

}  // namespace trireme::device
