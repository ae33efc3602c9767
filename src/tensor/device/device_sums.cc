#include "tensor/device/device_sums.h"

#include <algorithm>

#include "base/error.h"
#include "base/log.h"

namespace trireme {
namespace {

constexpr std::size_t kMostRanks = 32;    // that a kernel sums
constexpr std::size_t kSliceFloats = 64;  // slices begin where memory is read in one piece

/// What ranks tell each other before they map memory.
struct Offer {
  std::int64_t host = 0;  ///< of ranks on one host the same
  std::int64_t floats = 0;
  device::SharedMemory::Handle handle = {};
};

}  // namespace

DeviceSums::DeviceSums(std::size_t floats, torch::Device device)
    : device_(device), own_(device::allocate(floats, device)) {}

DeviceSums::~DeviceSums() = default;

void DeviceSums::connect(collective::Communicator& ranks, std::vector<LaneRange> lanes, SumsWay way) {
  ranks_ = &ranks;
  lanes_ = std::move(lanes);
  peers_.clear();
  if (ranks.size() == 1) return;
  if (way == SumsWay::kHost || !map_peers()) {
    peers_.clear();
    host_ = ranks.allocate(memory().size_bytes());  // a collective call: also by those who had some in the last view
    if (way == SumsWay::kHost) return;
    log_warn("gradients_through_host",
             "gradients go through the host's memory: GPUs of these ranks cannot see each other",
             {{"ranks", ranks.size()}, {"bytes_per_step", 2 * memory().size_bytes()}});
  }
}

/// Tries to map the memory of all; true if all ranks could.
bool DeviceSums::map_peers() {
  const bool one_host = ranks_->size() <= kMostRanks && ranks_->transport() == "shm";
  Offer own{.host = one_host ? 1 : 0, .floats = static_cast<std::int64_t>(memory().size())};
  std::string problem;
  try {
    own.handle = own_->handle();
  } catch (const Error& error) {
    own.host = 0;
    problem = error.what();
  }
  std::vector<Offer> offers(ranks_->size());
  ranks_->run(collective::all_gather({DType::kI8, &own, sizeof(own)},
                                     {DType::kI8, offers.data(), offers.size() * sizeof(Offer)}));
  float good = 1;
  for (Rank rank = 0; rank < ranks_->size() && good > 0; ++rank) {
    const Offer& offer = offers[rank];
    if (offer.host == 0 || offer.floats != own.floats) {
      good = 0;
      break;
    }
    try {
      peers_.push_back(rank == ranks_->rank() ? own_ : device::map(offer.handle, memory().size(), device_));
    } catch (const Error& error) {
      problem = error.what();
      good = 0;
    }
  }
  if (!problem.empty())
    log_info("device_memory_not_shared", "cannot share the memory of the GPU", {{"reason", problem}});
  ranks_->run(collective::all_reduce(std::span<float>(&good, 1), {.op = collective::ReduceOp::kMin}));
  return good > 0;
}

std::string DeviceSums::engine() const {
  if (ranks_ == nullptr || ranks_->size() == 1) return "alone";
  return peers_.empty() ? "host memory" : "ipc";
}

void DeviceSums::reduce() {
  if (ranks_->size() == 1) return;
  if (peers_.empty()) return reduce_on_host();
  device::synchronize(device_);
  ranks_->run(collective::barrier());  // everybody's gradients are there
  const std::size_t slices = (memory().size() + kSliceFloats - 1) / kSliceFloats;
  const auto edge = [&](std::uint64_t rank) {
    return std::min<std::size_t>(slices * rank / ranks_->size() * kSliceFloats, memory().size());
  };
  std::vector<float*> parts;
  for (const auto& peer : peers_) parts.push_back(peer->floats().data());
  const std::size_t begin = edge(ranks_->rank());
  device::sum_lanes(parts, lanes_, begin, edge(std::uint64_t{ranks_->rank()} + 1) - begin, device_);
  device::synchronize(device_);
  ranks_->run(collective::barrier());  // everybody's slice is there
}

void DeviceSums::reduce_on_host() {
  const std::span<float> host(reinterpret_cast<float*>(host_.get()), memory().size());
  device::copy_to_host(memory(), host, device_);
  ranks_->run(collective::all_reduce(host, {.lanes = lanes_}));
  device::copy_to_device(host, memory(), device_);
}

void DeviceSums::leave() {
  peers_.clear();
  ranks_->run(collective::barrier());
}

}  // namespace trireme
