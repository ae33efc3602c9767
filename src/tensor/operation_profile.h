#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>
#include <torch/types.h>

namespace trireme {

/// What one kind of operation took, in all: a kernel of a GPU, or an operator of LibTorch without those it called.
struct OperationCost {
  std::string name;
  std::string part;  ///< "products", "attention", …: what a person would call it
  std::uint64_t calls = 0;
  double seconds = 0;
};

/// What took the time of some steps, most first.
struct OperationCosts {
  std::vector<OperationCost> operations;
  double device_seconds = 0;  ///< in which the device computed or copied; 0 on a CPU
  double seconds = 0;         ///< from the beginning to the end
};

nlohmann::json to_json(const OperationCosts& costs);

/// The part of a step that an operation belongs to, by its name.
std::string part_of_step(const std::string& operation);

/// Records what LibTorch and the GPU compute while it lives. One at a time in a process.
class OperationProfile {
 public:
  explicit OperationProfile(torch::Device device);
  ~OperationProfile();
  OperationProfile(const OperationProfile&) = delete;
  OperationProfile& operator=(const OperationProfile&) = delete;

  /// Ends the recording; writes all of it to `trace`, in a new folder if there is none. Throws IoError.
  OperationCosts finish(const std::filesystem::path& trace);

 private:
  torch::Device device_;
  bool recording_ = true;
};

}  // namespace trireme
