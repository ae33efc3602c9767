#include "elastic/state_sync.h"

#include <algorithm>
#include <array>
#include <unordered_set>

#include "base/log.h"
#include "checkpoint/format.h"
#include "tensor/broadcast.h"

namespace trireme {
namespace {

using Wire = std::array<std::int64_t, 4>;  // 0 if fresh, else 1; version; updates; settled: compared in this order

}  // namespace

SyncResult sync_to_furthest(collective::Communicator& ranks, const Position& own,
                            const std::vector<NamedParameter>& state) {
  return sync_to_furthest(ranks, own, [&](Rank /*root*/) { return state; });
}

SyncResult sync_to_furthest(collective::Communicator& ranks, const Position& own,
                            const std::function<std::vector<NamedParameter>(Rank root)>& share) {
  const Wire mine{own.fresh ? 0 : 1, static_cast<std::int64_t>(own.version), static_cast<std::int64_t>(own.updates),
                  own.settled ? 1 : 0};
  std::vector<Wire> all(ranks.size());
  ranks.run(collective::all_gather(collective::ConstArray(DType::kI64, mine.data(), mine.size()),
                                   collective::Array(DType::kI64, all.data(), mine.size() * all.size())));
  const auto source = std::ranges::max_element(all);  // the first of several
  const auto root = static_cast<Rank>(source - all.begin());
  const bool level = std::ranges::all_of(
      all, [&](const Wire& other) { return other == *source && other.front() == 1 && other.back() == 1; });
  SyncResult result{.at = {.fresh = (*source)[0] == 0,
                           .version = static_cast<Step>((*source)[1]),
                           .updates = static_cast<Step>((*source)[2])}};
  if (level) return result;
  result.taken = root != ranks.rank();
  // All of it arrives before any of it is used: if the root dies meanwhile, this rank still has a state.
  const std::vector<NamedParameter> state = share(root);
  std::vector<torch::Tensor> arrived;
  for (const NamedParameter& piece : state) {
    arrived.push_back(result.taken && piece.tensor.defined() ? torch::empty_like(piece.tensor) : piece.tensor);
    broadcast_tensor(ranks, arrived.back(), root);
  }
  torch::NoGradGuard no_grad;
  for (std::size_t i = 0; result.taken && i < state.size(); ++i) {
    torch::Tensor target = state[i].tensor;
    if (target.defined()) target.copy_(arrived[i]);
  }
  if (result.taken && result.at.version > own.version) {
    log_info("state_copied", "copied the state of another worker",
             {{"from_rank", root}, {"step", result.at.version}, {"own_step", own.fresh ? 0 : own.version}});
  }
  return result;
}

std::vector<NamedParameter> non_trainable_state(const torch::nn::Module& module) {
  std::vector<NamedParameter> all;
  std::unordered_set<const at::TensorImpl*> seen;
  const auto add = [&](const std::string& name, const torch::Tensor& tensor) {
    if (tensor.defined() && seen.insert(tensor.unsafeGetTensorImpl()).second) all.push_back({name, tensor});
  };
  for (const auto& item : module.named_parameters()) {
    if (!item.value().requires_grad()) add(checkpoint::model_tensor(item.key()), item.value());
  }
  for (const auto& item : module.named_buffers()) add(checkpoint::buffer_tensor(item.key()), item.value());
  return all;
}

}  // namespace trireme
