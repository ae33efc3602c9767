#include "base/error.h"
#include "tensor/device/device_kernels.h"

// A build without a CUDA compiler, or with a LibTorch that knows no GPUs.

namespace trireme::device {
namespace {

[[noreturn]] void refuse() {
  TRIREME_CHECK(false, "this build has no kernels for GPUs");
  std::abort();
}

}  // namespace

bool runs_on(torch::Device /*device*/) { return false; }
bool can_normalise(const torch::Tensor& /*x*/, const torch::Tensor& /*branch*/, torch::ScalarType /*type*/) {
  return false;
}
bool can_normalise(const torch::Tensor& /*x*/, const torch::Tensor& /*branch*/, const torch::Tensor& /*scale*/,
                   torch::ScalarType /*type*/) {
  return false;
}
Normed layer_norm(const torch::Tensor& /*x*/, const torch::Tensor& /*branch*/, const torch::Tensor& /*scale*/,
                  const torch::Tensor& /*offset*/, double /*epsilon*/, torch::ScalarType /*type*/) {
  refuse();
}
NormGradients layer_norm_backward(const torch::Tensor& /*of_out*/, const torch::Tensor& /*of_sum*/,
                                  const Normed& /*normed*/, const torch::Tensor& /*scale*/, bool /*with_branch*/) {
  refuse();
}
bool can_compare(const torch::Tensor& /*logits*/, const torch::Tensor& /*targets*/) { return false; }
Entropy cross_entropy(const torch::Tensor& /*logits*/, const torch::Tensor& /*targets*/) { refuse(); }
void cross_entropy_backward(torch::Tensor& /*logits*/, const torch::Tensor& /*targets*/,
                            const torch::Tensor& /*log_sum*/, const torch::Tensor& /*of_loss*/) {
  refuse();
}
torch::Tensor cross_entropy_at_once(torch::Tensor& /*logits*/, const torch::Tensor& /*targets*/, float /*of_loss*/) {
  refuse();
}
void rescale_entropy_gradient(torch::Tensor& /*gradient*/, const torch::Tensor& /*targets*/, float /*assumed*/,
                              const torch::Tensor& /*of_loss*/) {
  refuse();
}
bool can_sum_columns(const torch::Tensor& /*matrix*/) { return false; }
torch::Tensor column_sums(const torch::Tensor& /*matrix*/) { refuse(); }
std::pair<torch::Tensor, torch::Tensor> gelu_backward(const torch::Tensor& /*gradient*/,
                                                      const torch::Tensor& /*before*/) {
  refuse();
}
std::unique_ptr<Updates> make_updates(const optim::UpdateConfig& /*config*/, std::span<const UpdatePart> /*parts*/,
                                      torch::Device /*device*/) {
  refuse();
}
double PendingNumber::wait() const { refuse(); }
PendingNumber sum_of_squares(std::span<const float> /*values*/, torch::Device /*device*/) { refuse(); }
std::shared_ptr<SharedMemory> allocate(std::size_t /*floats*/, torch::Device /*device*/) { refuse(); }
std::shared_ptr<SharedMemory> map(const SharedMemory::Handle& /*handle*/, std::size_t /*floats*/,
                                  torch::Device /*device*/) {
  refuse();
}
void sum_lanes(std::span<float* const> /*parts*/, std::span<const LaneRange> /*lanes*/, std::size_t /*begin*/,
               std::size_t /*count*/, torch::Device /*device*/) {
  refuse();
}
void synchronize(torch::Device /*device*/) { refuse(); }
void copy_to_host(std::span<const float> /*from*/, std::span<float> /*to*/, torch::Device /*device*/) { refuse(); }
void copy_to_device(std::span<const float> /*from*/, std::span<float> /*to*/, torch::Device /*device*/) { refuse(); }

}  // namespace trireme::device
