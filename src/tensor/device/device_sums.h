#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include <torch/types.h>

#include "collective/communicator.h"
#include "tensor/device/device_kernels.h"

namespace trireme {

/// How the ranks' sums are made.
enum class SumsWay {
  kBest,
  kHost,  ///< through the host's memory, although there may be a better one: to compare them
};

/// Gradients in the memory of a GPU, summed over the ranks in place.
///
/// Ranks of one host map each other's memory (CUDA IPC), also those that share a GPU; each sums its slice of all of
/// them, along the summation tree, straight out of the others' memory and into it. Where that cannot be (another host,
/// more ranks than the kernel takes) gradients go through the host's memory and the communicator, with a warning. The
/// sums have the same bits either way. Not thread-safe.
class DeviceSums {
 public:
  /// Allocates; talks to nobody. Throws IoError if the device has not so much.
  DeviceSums(std::size_t floats, torch::Device device);
  ~DeviceSums();
  DeviceSums(const DeviceSums&) = delete;
  DeviceSums& operator=(const DeviceSums&) = delete;

  std::span<float> memory() { return own_->floats(); }
  const std::shared_ptr<device::SharedMemory>& shared_memory() const { return own_; }  ///< whoever holds it keeps it
  torch::Device device() const { return device_; }

  /// From now on sums are over these ranks, which outlive their use; `lanes` by rank. A collective call. Throws
  /// PeerLost, Timeout.
  void connect(collective::Communicator& ranks, std::vector<LaneRange> lanes, SumsWay way = SumsWay::kBest);

  /// Replaces the memory of each rank by the sum of all. Waits for all ranks. A collective call. Throws PeerLost,
  /// Timeout: what the memory holds is then anything.
  void reduce();

  /// Lets go of the others' memory, which they may free after it. A collective call.
  void leave();

  /// "alone", "ipc" or "host memory".
  std::string engine() const;

 private:
  bool map_peers();
  void reduce_on_host();

  torch::Device device_;
  std::shared_ptr<device::SharedMemory> own_;
  std::vector<std::shared_ptr<device::SharedMemory>> peers_;  // by rank; empty: not mapped
  std::shared_ptr<std::byte> host_;                           // of as many floats, where gradients go through it
  collective::Communicator* ranks_ = nullptr;
  std::vector<LaneRange> lanes_;
};

}  // namespace trireme
