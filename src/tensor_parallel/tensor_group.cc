#include <algorithm>
#include <limits>
#include <utility>

#include <torch/utils.h>

#include "trireme/tensor_parallel.h"

#include "base/error.h"
#include "base/numbers/lanes.h"
#include "base/random.h"
#include "collective/reduction.h"
#include "tensor/device/host_memory.h"
#include "tensor/torch_dtype.h"

namespace trireme::parallel {
namespace {

/// Returns the multiple of `divisor` that is nearest to `number` and at least `divisor`.
Lane nearest_multiple(Lane number, std::uint32_t divisor) {
  const Lane below = number / divisor * divisor;
  if (below == 0) return divisor;
  return number - below <= below + divisor - number ? below : below + divisor;
}

std::vector<LaneRange> deal_equally(Lane lanes, std::uint32_t ranks) {
  if (lanes % ranks != 0) {
    fail<InvalidArgument>("{} tensor lanes cannot be divided among {} processes: the nearest is {} lanes", lanes, ranks,
                          nearest_multiple(lanes, ranks));
  }
  return deal_lanes(lanes, ranks);
}

DType known_dtype(const torch::Tensor& tensor, const std::string& label) {
  const auto dtype = dtype_of(tensor.scalar_type());
  if (!dtype)
    fail<InvalidArgument>("{}: tensors of type {} cannot be exchanged", label, c10::toString(tensor.scalar_type()));
  return *dtype;
}

collective::ConstArray read_array(const torch::Tensor& host, const std::string& label) {
  return {known_dtype(host, label), host.data_ptr(), static_cast<std::size_t>(host.numel())};
}

collective::Array write_array(torch::Tensor& host, const std::string& label) {
  return {known_dtype(host, label), host.data_ptr(), static_cast<std::size_t>(host.numel())};
}

std::vector<std::int64_t> resized(const torch::Tensor& tensor, std::int64_t dim, std::int64_t size) {
  std::vector<std::int64_t> shape = tensor.sizes().vec();
  shape[static_cast<std::size_t>(dim)] = size;
  return shape;
}

/// Returns whether parts along `dim` lie one after the other in memory.
bool leads(const torch::Tensor& tensor, std::int64_t dim) {
  return std::ranges::all_of(tensor.sizes().slice(0, static_cast<std::size_t>(dim)), [](auto n) { return n == 1; });
}

}  // namespace

TensorGroup::TensorGroup(Lane lanes) : lanes_(lanes), dealt_{LaneRange{0, lanes}} {
  if (lanes == 0) fail<InvalidArgument>("0 tensor lanes: there is at least one");
}

TensorGroup::TensorGroup(collective::Communicator& ranks, Lane lanes)
    : ranks_(ranks.size() > 1 ? &ranks : nullptr),
      rank_(ranks.rank()),
      lanes_(lanes == 0 ? ranks.size() : lanes),
      dealt_(deal_equally(lanes_, ranks.size())) {}

Range TensorGroup::block(std::int64_t whole, Lane lane) const {
  const SampleRange block = lane_samples(static_cast<std::uint64_t>(whole), lanes_, lane);
  const auto begin = static_cast<std::int64_t>(block.first);
  return {begin, begin + static_cast<std::int64_t>(block.count)};
}

Range TensorGroup::part(std::int64_t whole, Rank rank) const {
  const LaneRange lanes = lanes_of(rank);
  return {block(whole, lanes.first).begin, block(whole, lanes.end() - 1).end};
}

std::vector<std::int64_t> TensorGroup::block_sizes(std::int64_t whole) const {
  std::vector<std::int64_t> sizes;
  for (Lane lane = mine().first; lane < mine().end(); ++lane) sizes.push_back(block(whole, lane).size());
  return sizes;
}

void TensorGroup::check_divides(std::int64_t count, const std::string& things) const {
  if (count % lanes_ == 0) return;
  Lane nearest = 1;
  for (Lane lanes = 1; lanes <= 2 * lanes_ && lanes <= count; ++lanes) {
    const auto apart = [&](Lane n) { return n > lanes_ ? n - lanes_ : lanes_ - n; };
    if (count % lanes == 0 && lanes % size() == 0 && apart(lanes) < apart(nearest)) nearest = lanes;
  }
  if (count % nearest == 0 && nearest % size() == 0) {
    fail<InvalidArgument>("{} tensor lanes do not divide {} {}: the nearest that do are {}", lanes_, count, things,
                          nearest);
  }
  fail<InvalidArgument>("{} tensor lanes do not divide {} {}, and no number of lanes for {} processes does: use fewer",
                        lanes_, count, things, size());
}

void TensorGroup::seed(std::uint64_t seed) {
  seed_ = seed;
  drawn_ = 0;
}

std::uint64_t TensorGroup::next_seed() {
  if (seed_) return mix_seed(*seed_, drawn_++);
  const torch::Tensor drawn = torch::randint(std::numeric_limits<std::int64_t>::max(), {1}, torch::kInt64);
  return static_cast<std::uint64_t>(drawn.item<std::int64_t>());
}

void TensorGroup::run(collective::Operation operation, std::uint64_t bytes, const std::string& label) {
  operation.label = label;
  try {
    ranks_->run(std::move(operation));
  } catch (const InvalidArgument& problem) {
    fail<InvalidArgument>("tensor group, rank {} of {}, at '{}': {}", rank_, size(), label, problem.what());
  }
  ++traffic_.operations;
  traffic_.bytes += bytes;
}

torch::Tensor TensorGroup::all_reduce(const torch::Tensor& partial, collective::ReduceOp op, const std::string& label) {
  if (ranks_ == nullptr) return partial;
  const torch::Tensor in = on_host(partial);
  torch::Tensor out = torch::empty_like(in);
  run(collective::all_reduce(read_array(in, label), write_array(out, label), {.op = op, .lanes = dealt_}),
      2 * in.nbytes(), label);
  return out.to(partial.device());
}

torch::Tensor TensorGroup::reduce_scatter(const torch::Tensor& partial, std::int64_t dim, const std::string& label) {
  if (ranks_ == nullptr) return partial;
  const std::int64_t whole = partial.size(dim);
  std::vector<std::size_t> counts;
  std::vector<torch::Tensor> parts;
  for (Rank rank = 0; rank < size(); ++rank) {
    const Range range = part(whole, rank);
    parts.push_back(partial.narrow(dim, range.begin, range.size()).reshape(-1));
    counts.push_back(static_cast<std::size_t>(parts.back().numel()));
  }
  const torch::Tensor in = on_host(leads(partial, dim) ? partial : torch::cat(parts));
  torch::Tensor out = torch::empty(resized(partial, dim, part(whole).size()), in.options());
  run(collective::reduce_scatter(read_array(in, label), write_array(out, label), {.lanes = dealt_}, counts),
      in.nbytes(), label);
  return out.to(partial.device());
}

torch::Tensor TensorGroup::all_gather(const torch::Tensor& part_here, std::int64_t dim, std::int64_t whole,
                                      const std::string& label) {
  if (part_here.size(dim) != part(whole).size()) {
    fail<InvalidArgument>("{}: {} of {} elements of dimension {}; rank {} of {} has {}", label, part_here.size(dim),
                          whole, dim, rank_, size(), part(whole).size());
  }
  if (ranks_ == nullptr) return part_here;
  const torch::Tensor in = on_host(part_here);
  const std::vector<std::int64_t> shape = resized(part_here, dim, whole);
  torch::Tensor out = torch::empty(shape, in.options());
  std::vector<std::size_t> counts;
  std::vector<std::vector<std::int64_t>> shapes;
  for (Rank rank = 0; rank < size(); ++rank) {
    shapes.push_back(resized(part_here, dim, part(whole, rank).size()));
    std::size_t count = 1;
    for (const std::int64_t extent : shapes.back()) count *= static_cast<std::size_t>(extent);
    counts.push_back(count);
  }
  run(collective::all_gather(read_array(in, label), write_array(out, label), counts), out.nbytes(), label);
  if (!leads(part_here, dim)) {
    const torch::Tensor flat = out.reshape(-1);
    std::vector<torch::Tensor> parts;
    std::int64_t at = 0;
    for (Rank rank = 0; rank < size(); ++rank) {
      const auto count = static_cast<std::int64_t>(counts[rank]);
      parts.push_back(flat.narrow(0, at, count).view(shapes[rank]));
      at += count;
    }
    out = torch::cat(parts, dim);
  }
  return out.to(part_here.device());
}

std::int64_t TensorGroup::whole_length(std::int64_t part, const std::string& label) {
  if (ranks_ == nullptr) return part;
  std::vector<std::int64_t> parts(size());
  const std::span<const std::int64_t> own(&part, 1);
  run(collective::all_gather(collective::ConstArray(own), std::span(parts)), parts.size() * sizeof(std::int64_t),
      label);
  std::int64_t whole = 0;
  for (const std::int64_t length : parts) whole += length;
  return whole;
}

torch::Tensor TensorGroup::sum_own(const LaneTensors& lanes) const {
  TRIREME_CHECK(lanes.size() == mine().count, "{} tensors for {} lanes", lanes.size(), mine().count);
  std::vector<torch::Tensor> parts;
  std::vector<collective::Contribution> contributions;
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    const bool narrow = lanes[i].scalar_type() == torch::kHalf || lanes[i].scalar_type() == torch::kBFloat16;
    parts.push_back(on_host(narrow ? lanes[i].to(torch::kFloat32) : lanes[i]));
    contributions.push_back({.lanes = {mine().first + static_cast<Lane>(i), 1},
                             .values = static_cast<const std::byte*>(parts.back().data_ptr())});
  }
  if (parts.size() == 1) return parts.front().to(lanes.front().device());
  torch::Tensor sum = torch::empty_like(parts.front());
  collective::reduce(known_dtype(sum, "sum of lanes"), collective::ReduceOp::kSum, lanes_, contributions,
                     static_cast<std::size_t>(sum.numel()), static_cast<std::byte*>(sum.data_ptr()), 1);
  return sum.to(lanes.front().device());
}

}  // namespace trireme::parallel
