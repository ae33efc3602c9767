#include "train/sharded/state_exchange.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "base/error.h"
#include "base/log.h"
#include "tensor/device/host_memory.h"
#include "tensor/torch_dtype.h"

namespace trireme {
namespace {

std::vector<checkpoint::TensorInfo> describe_whole(const ShardedParameters& parameters) {
  std::vector<checkpoint::TensorInfo> tensors;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    tensors.push_back({.name = parameters.name(i), .dtype = DType::kF32, .shape = parameters.whole(i).shape()});
  }
  return tensors;
}

std::vector<checkpoint::TensorInfo> describe_others(const std::vector<NamedParameter>& tensors) {
  std::vector<checkpoint::TensorInfo> described;
  for (const NamedParameter& piece : tensors) {
    const auto dtype = dtype_of(piece.tensor.scalar_type());
    if (!dtype) {
      fail<InvalidArgument>("'{}' cannot be saved: its element type is {}", piece.name,
                            c10::toString(piece.tensor.scalar_type()));
    }
    described.push_back({.name = piece.name, .dtype = *dtype, .shape = piece.tensor.sizes().vec()});
  }
  return described;
}

/// Tensors that a rank has whole, as ranges of a table.
StateRanges whole_ranges(const std::vector<NamedParameter>& tensors, const TensorTable& table) {
  StateRanges ranges;
  for (const NamedParameter& piece : tensors) {
    if (table.contains(piece.name)) ranges.push_back({table.number(piece.name), 0, piece.tensor.nbytes()});
  }
  std::ranges::sort(ranges, {}, &StateRange::tensor);
  return ranges;
}

/// Where the elements of parameters are in a rank's memory.
class OwnedRuns {
 public:
  OwnedRuns(ShardedParameters& parameters, std::size_t array, const TensorTable& table, bool as_shown = false)
      : parameters_(parameters), array_(array), as_shown_(as_shown) {
    for (const ShardLayout::Run& run : parameters.runs()) {
      const std::string& name = parameters.name(run.parameter);
      if (table.contains(name)) runs_[table.number(name)] = &run;
    }
  }

  MutableBytes at(const StateRange& range) const {
    const ShardLayout::Run& run = *runs_.at(range.tensor);
    const std::uint64_t local = parameters_.whole(run.parameter).local(range.offset / sizeof(float));
    const std::span<float> values = as_shown_ ? parameters_.shown(run) : parameters_.owned(array_, run);
    return std::as_writable_bytes(values).subspan((local - run.first) * sizeof(float), range.length);
  }

 private:
  ShardedParameters& parameters_;
  std::size_t array_;
  bool as_shown_;
  std::map<std::uint32_t, const ShardLayout::Run*> runs_;  // a rank owns at most one run of a parameter
};

void copy_state(Bytes from, MutableBytes to) { std::ranges::copy(from, to.begin()); }

const torch::Tensor& named(const std::vector<NamedParameter>& tensors, const std::string& name) {
  return std::ranges::find(tensors, name, &NamedParameter::name)->tensor;
}

/// What a rank owns of the parameters, as ranges of `table`.
StateRanges owned_ranges(const ShardedParameters& parameters, const TensorTable& table) {
  StateRanges result;
  for (const ShardLayout::Run& run : parameters.runs()) {
    const std::string& name = parameters.name(run.parameter);
    if (!table.contains(name)) continue;
    for (const WholeTensor::Run& whole : parameters.whole(run.parameter).runs(run.first, run.count)) {
      result.push_back({table.number(name), whole.whole * sizeof(float), whole.count * sizeof(float)});
    }
  }
  std::ranges::sort(result, {}, [](const StateRange& range) { return std::pair(range.tensor, range.offset); });
  return result;
}

/// What `rank` writes of what it has: of several ranks that have the same bytes each writes some. Ranks whose slices
/// differ in size cut what they all have at different places, so it is divided wherever anybody's range begins or ends.
StateRanges share_of_writing(const std::vector<StateRanges>& all, Rank rank) {
  std::map<std::uint32_t, std::set<std::uint64_t>> bounds;  // by tensor
  for (const StateRanges& ranges : all) {
    for (const StateRange& range : ranges) {
      bounds[range.tensor].insert({range.offset, range.offset + range.length});
    }
  }
  std::map<std::pair<std::uint32_t, std::uint64_t>, std::vector<Rank>> holders;  // by tensor and begin
  for (Rank holder = 0; holder < all.size(); ++holder) {
    for (const StateRange& range : all[holder]) {
      const std::set<std::uint64_t>& cuts = bounds[range.tensor];
      const auto end = cuts.find(range.offset + range.length);
      for (auto cut = cuts.find(range.offset); cut != end; ++cut) holders[{range.tensor, *cut}].push_back(holder);
    }
  }
  StateRanges mine;
  std::size_t number = 0;
  for (const auto& [begin, ranks] : holders) {
    if (ranks[number++ % ranks.size()] != rank) continue;
    const auto& [tensor, offset] = begin;
    mine.push_back({tensor, offset, *bounds[tensor].upper_bound(offset) - offset});
  }
  return mine;
}

}  // namespace

StateExchange::StateExchange(collective::Communicator& ranks, StatePart next, bool made_everywhere)
    : ranks_(ranks),
      next_(std::move(next)),
      made_everywhere_(made_everywhere),
      parameters_(ranks, describe_whole(*next_.parameters)),
      others_(ranks, describe_others(next_.others)) {
  if (parameters_.size() == 0) fail<InvalidArgument>("the model has no parameters to train");
}

StateOrigin StateExchange::run(const CommitDecision& decision, const StatePart& held, const Restore& restore) {
  const bool holds = held.parameters != nullptr;
  const auto own = holds ? owned_ranges(*held.parameters, parameters_) : StateRanges{};
  std::vector<StateRanges> has = gather_ranges(ranks_, own);
  needs_ = gather_ranges(ranks_, owned_ranges(*next_.parameters, parameters_));
  std::vector<StateRanges> others_has =
      gather_ranges(ranks_, holds ? whole_ranges(held.others, others_) : StateRanges{});
  others_needs_ = gather_ranges(ranks_, whole_ranges(next_.others, others_));
  TransferPlan plan = plan_transfers(has, needs_);
  TransferPlan others_plan = plan_transfers(others_has, others_needs_);
  StateOrigin origin{.kind = StateOrigin::Kind::kWorkers, .version = decision.version, .updates = decision.updates};
  const bool incomplete = !plan.missing.empty() || !others_plan.missing.empty();
  if (decision.fresh || incomplete) {
    const std::string lost = !plan.missing.empty()          ? parameters_[plan.missing.front().tensor].name
                             : !others_plan.missing.empty() ? others_[others_plan.missing.front().tensor].name
                                                            : "";
    origin = open_checkpoint(decision, lost, restore);
    const bool have_it = origin.kind == StateOrigin::Kind::kInitial && made_everywhere_;
    has.assign(has.size(), {});
    others_has.assign(others_has.size(), {});
    if (have_it) {
      has = needs_;
      others_has = others_needs_;
    } else {
      has[0] = parameters_.everything();
      others_has[0] = others_.everything();
    }
    plan = plan_transfers(has, needs_);
    others_plan = plan_transfers(others_has, others_needs_);
  }
  const bool initial = origin.kind == StateOrigin::Kind::kInitial;  // the optimizer's state is then zero, as it is
  for (std::size_t array = 0; array < (initial ? 1 : next_.parameters->arrays()); ++array) {
    move_parameters(plan, array, held, origin.kind);
  }
  move_others(others_plan, held, origin.kind);
  return origin;
}

/// The chief opens the newest checkpoint, and tells the others where it was made.
StateOrigin StateExchange::open_checkpoint(const CommitDecision& decision, const std::string& lost,
                                           const Restore& restore) {
  std::array<std::int64_t, 3> told{};  // whether there is one; version, updates
  if (ranks_.rank() == 0) {
    if (!decision.fresh) {
      log_warn("state_lost", "a part of the state is gone with a worker: all go back to the newest checkpoint",
               {{"step", decision.version}, {"parameter", lost}});
    }
    opened_ = restore.open ? restore.open(decision.fresh) : std::nullopt;
    if (!opened_ && !decision.fresh) {
      fail<Error>(
          "a part of the state after step {} is gone with a worker ('{}'), and there is no checkpoint: start again; to "
          "be safe from this, write checkpoints (--out, --checkpoint-every) or hold the state twice (zero:N,shards=M)",
          decision.version, lost);
    }
    if (opened_) {
      check_checkpoint();
      told = {1, static_cast<std::int64_t>(opened_->at.version), static_cast<std::int64_t>(opened_->at.updates)};
    }
  }
  ranks_.run(collective::broadcast(collective::Array(DType::kI64, told.data(), told.size())));
  return {.kind = told[0] != 0 ? StateOrigin::Kind::kCheckpoint : StateOrigin::Kind::kInitial,
          .version = static_cast<Step>(told[1]),
          .updates = static_cast<Step>(told[2])};
}

void StateExchange::check_checkpoint() const {
  const auto check = [&](checkpoint::TensorInfo wanted) {
    const checkpoint::TensorInfo* there = opened_->saved.find(wanted.name);
    if (there != nullptr && *there == wanted) return;
    fail<InvalidArgument>(
        "checkpoint {} does not fit this run: '{}' is {} there; was it written by another model or optimizer?",
        opened_->saved.folder().string(), wanted.name, there == nullptr ? "missing" : "of another shape or type");
  };
  for (const checkpoint::TensorInfo& parameter : parameters_.all()) {
    for (std::size_t array = 0; array < next_.parameters->arrays(); ++array) {
      checkpoint::TensorInfo wanted = parameter;
      wanted.name = next_.parameters->array_tensor(array, parameter.name);
      check(std::move(wanted));
    }
  }
  for (const checkpoint::TensorInfo& other : others_.all()) check(other);
}

void StateExchange::move_parameters(const TransferPlan& plan, std::size_t array, const StatePart& held,
                                    StateOrigin::Kind kind) {
  Source read;
  std::optional<OwnedRuns> from;
  if (held.parameters != nullptr) from.emplace(*held.parameters, array, parameters_);
  switch (kind) {
    case StateOrigin::Kind::kWorkers:
      read = [&](const StateRange& range, MutableBytes to) { copy_state(from->at(range), to); };
      break;
    case StateOrigin::Kind::kCheckpoint:
      read = [&](const StateRange& range, MutableBytes to) {
        opened_->saved.read(next_.parameters->array_tensor(array, parameters_[range.tensor].name), range.offset, to);
      };
      break;
    case StateOrigin::Kind::kInitial:
      read = [&](const StateRange& range, MutableBytes to) {
        std::size_t i = 0;
        while (next_.parameters->name(i) != parameters_[range.tensor].name) ++i;
        const std::uint64_t local = next_.parameters->whole(i).local(range.offset / sizeof(float)) * sizeof(float);
        copy_state(std::as_bytes(next_.parameters->initial(i)).subspan(local, range.length), to);
      };
      break;
  }
  const OwnedRuns to(*next_.parameters, array, parameters_);
  run_transfers(ranks_, plan.transfers, read,
                [&](const StateRange& range, Bytes bytes) { copy_state(bytes, to.at(range)); });
}

void StateExchange::move_others(const TransferPlan& plan, const StatePart& held, StateOrigin::Kind kind) {
  torch::NoGradGuard no_grad;
  for (const NamedParameter& piece : next_.others) {
    others_arrived_[others_.number(piece.name)] = torch::empty_like(on_host(piece.tensor));
  }
  const Source read = [&](const StateRange& range, MutableBytes to) {
    const std::string& name = others_[range.tensor].name;
    if (kind == StateOrigin::Kind::kCheckpoint) return opened_->saved.read(name, range.offset, to);
    const auto& source = kind == StateOrigin::Kind::kWorkers ? held.others : next_.others;
    const torch::Tensor host = on_host(named(source, name));
    copy_state(bytes_of(host).subspan(range.offset, range.length), to);
  };
  run_transfers(ranks_, plan.transfers, read, [&](const StateRange& range, Bytes bytes) {
    copy_state(bytes, bytes_of(others_arrived_.at(range.tensor)).subspan(range.offset, range.length));
  });
}

void StateExchange::put_others() {
  torch::NoGradGuard no_grad;
  for (const NamedParameter& piece : next_.others) {
    torch::Tensor target = piece.tensor;
    target.copy_(others_arrived_.at(others_.number(piece.name)));
  }
  others_arrived_.clear();
}

ShardedState StateExchange::to_write(ShardedParameters& parameters, const std::vector<NamedParameter>& others) const {
  ShardedState state;
  for (std::size_t array = 0; array < parameters.arrays(); ++array) {
    for (const checkpoint::TensorInfo& tensor : parameters_.all()) {
      state.tensors.push_back(tensor);
      state.tensors.back().name = parameters.array_tensor(array, tensor.name);
    }
    const OwnedRuns owned(parameters, array, parameters_);
    for (const StateRange& range : share_of_writing(needs_, ranks_.rank())) {
      state.pieces.push_back({.tensor = parameters.array_tensor(array, parameters_[range.tensor].name),
                              .offset = range.offset,
                              .bytes = owned.at(range)});
    }
  }
  for (const checkpoint::TensorInfo& tensor : others_.all()) state.tensors.push_back(tensor);
  for (const StateRange& range : share_of_writing(others_needs_, ranks_.rank())) {
    const std::string& name = others_[range.tensor].name;
    const torch::Tensor& host = state.kept.emplace_back(on_host(named(others, name)));
    state.pieces.push_back(
        {.tensor = name, .offset = range.offset, .bytes = bytes_of(host).subspan(range.offset, range.length)});
  }
  return state;
}

void StateExchange::collect(ShardedParameters& parameters, const std::vector<NamedParameter>& others,
                            const Model& whole) const {
  torch::NoGradGuard no_grad;
  const bool chief = ranks_.rank() == 0;
  std::map<std::string, torch::Tensor> target;  // by name in checkpoints, on the host
  if (chief) {
    for (const auto& item : whole.module->named_parameters()) {
      target[checkpoint::model_tensor(item.key())] = item.value().detach();
    }
    for (const auto& item : whole.module->named_buffers()) target[checkpoint::buffer_tensor(item.key())] = item.value();
  }
  const auto to_chief = [&](const TensorTable& table, const std::vector<StateRanges>& has, bool are_parameters,
                            const Source& read) {
    std::vector<StateRanges> needs(ranks_.size());
    needs[0] = table.everything();
    const auto write = [&](const StateRange& range, Bytes bytes) {
      const std::string& name = table[range.tensor].name;
      const auto tensor = target.find(are_parameters ? checkpoint::model_tensor(name) : name);
      if (tensor == target.end()) return;  // state that is not the model's
      copy_state(bytes, bytes_of(tensor->second).subspan(range.offset, range.length));
    };
    run_transfers(ranks_, plan_transfers(has, needs).transfers, read, write);
  };
  const OwnedRuns shown(parameters, 0, parameters_, /*as_shown=*/true);
  to_chief(parameters_, needs_, true,
           [&](const StateRange& range, MutableBytes to) { copy_state(shown.at(range), to); });
  to_chief(others_, others_needs_, false, [&](const StateRange& range, MutableBytes to) {
    const torch::Tensor host = on_host(named(others, others_[range.tensor].name));
    copy_state(bytes_of(host).subspan(range.offset, range.length), to);
  });
}

}  // namespace trireme
