#include "tensor/broadcast.h"

#include "tensor/device/host_memory.h"

namespace trireme {

void broadcast_tensor(collective::Communicator& ranks, torch::Tensor tensor, Rank root) {
  torch::NoGradGuard no_grad;
  if (!tensor.defined() || ranks.size() == 1) return;
  torch::Tensor flat = on_host(tensor);
  ranks.run(collective::broadcast(collective::Array(DType::kU8, flat.data_ptr(), flat.nbytes()), root));
  if (flat.data_ptr() != tensor.data_ptr()) tensor.detach().copy_(flat);
}

}  // namespace trireme
