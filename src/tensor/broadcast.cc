#include "tensor/broadcast.h"

namespace trireme {

void broadcast_tensor(collective::Communicator& ranks, torch::Tensor tensor, Rank root) {
  torch::NoGradGuard no_grad;
  if (!tensor.defined() || ranks.size() == 1) return;
  torch::Tensor flat = tensor.detach().to(torch::kCPU).contiguous();  // the tensor itself where it can be
  ranks.run(collective::broadcast(collective::Array(DType::kU8, flat.data_ptr(), flat.nbytes()), root));
  if (flat.data_ptr() != tensor.data_ptr()) tensor.copy_(flat);
}

}  // namespace trireme
