#include "train/strategy/state_sync.h"

#include <algorithm>
#include <array>
#include <unordered_set>

#include "base/log.h"
#include "checkpoint/format.h"
#include "tensor/broadcast.h"

namespace trireme {
namespace {

using Wire = std::array<std::int64_t, 3>;  // 0 if fresh, else 1; version; updates: compared in this order

}  // namespace

SyncResult sync_to_furthest(collective::Communicator& ranks, const Position& own,
                            const std::vector<NamedParameter>& state) {
  const Wire mine{own.fresh ? 0 : 1, static_cast<std::int64_t>(own.version), static_cast<std::int64_t>(own.updates)};
  std::vector<Wire> all(ranks.size());
  ranks.run(collective::all_gather(collective::ConstArray(DType::kI64, mine.data(), mine.size()),
                                   collective::Array(DType::kI64, all.data(), mine.size() * all.size())));
  const auto source = std::ranges::max_element(all);  // the first of several
  const auto root = static_cast<Rank>(source - all.begin());
  const bool level = std::ranges::all_of(all, [&](const Wire& other) { return other == *source && other[0] == 1; });
  SyncResult result{.at = {.fresh = (*source)[0] == 0,
                           .version = static_cast<Step>((*source)[1]),
                           .updates = static_cast<Step>((*source)[2])}};
  if (level) return result;
  for (const NamedParameter& piece : state) broadcast_tensor(ranks, piece.tensor, root);
  result.taken = root != ranks.rank();
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
  for (const auto& item : module.named_buffers()) add("buffer/" + item.key(), item.value());
  return all;
}

}  // namespace trireme
