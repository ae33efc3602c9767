#include "trireme/train/broadcast.h"

namespace trireme {

void broadcast_tensor(collective::Communicator& ranks, torch::Tensor tensor, Rank root) {
  torch::NoGradGuard no_grad;
  if (!tensor.defined() || ranks.size() == 1) return;
  torch::Tensor flat = tensor.detach().to(torch::kCPU).contiguous();  // the tensor itself where it can be
  ranks.run(collective::broadcast(collective::Array(DType::kU8, flat.data_ptr(), flat.nbytes()), root));
  if (flat.data_ptr() != tensor.data_ptr()) tensor.copy_(flat);
}

void broadcast_model(collective::Communicator& ranks, torch::nn::Module& module, Rank root) {
  for (const torch::Tensor& parameter : module.parameters()) broadcast_tensor(ranks, parameter, root);
  for (const torch::Tensor& buffer : module.buffers()) broadcast_tensor(ranks, buffer, root);
}

}  // namespace trireme
