#include "cluster/gpu_load.h"

#include <dlfcn.h>

#include <array>

namespace trireme::cluster {
namespace {

// The few declarations of nvml.h that are needed: the header comes with the CUDA toolkit, the library with the driver.
using Device = struct NvmlDevice*;
struct Memory {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};
struct Utilization {
  unsigned int gpu;  // percent
  unsigned int memory;
};

/// The driver's library, as far as it could be loaded.
class Nvml {
 public:
  explicit Nvml(const std::string& library) : library_(::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (library_ == nullptr) return;
    find("nvmlInit_v2", init_);
    find("nvmlDeviceGetCount_v2", count_);
    find("nvmlDeviceGetHandleByIndex_v2", handle_);
    find("nvmlDeviceGetName", name_);
    find("nvmlDeviceGetMemoryInfo", memory_);
    find("nvmlDeviceGetUtilizationRates", utilization_);
    works_ = init_ != nullptr && count_ != nullptr && handle_ != nullptr && name_ != nullptr && memory_ != nullptr &&
             utilization_ != nullptr && init_() == 0;
  }

  std::vector<GpuLoad> load() const {
    std::vector<GpuLoad> all;
    unsigned int count = 0;
    if (!works_ || count_(&count) != 0) return all;
    for (unsigned int i = 0; i < count; ++i) {
      Device device = nullptr;
      if (handle_(i, &device) != 0) continue;
      GpuLoad& gpu = all.emplace_back();
      std::array<char, 96> name{};
      if (name_(device, name.data(), name.size() - 1) == 0) gpu.name = name.data();
      if (Memory memory{}; memory_(device, &memory) == 0) {
        gpu.memory = memory.total;
        gpu.used = memory.used;
      }
      if (Utilization use{}; utilization_(device, &use) == 0) gpu.use = use.gpu / 100.0;
    }
    return all;
  }

 private:
  template <typename Function>
  void find(const char* name, Function& function) {
    function = reinterpret_cast<Function>(::dlsym(library_, name));
  }

  void* const library_;  // never unloaded: the driver has threads of its own
  bool works_ = false;
  int (*init_)() = nullptr;
  int (*count_)(unsigned int*) = nullptr;
  int (*handle_)(unsigned int, Device*) = nullptr;
  int (*name_)(Device, char*, unsigned int) = nullptr;
  int (*memory_)(Device, Memory*) = nullptr;
  int (*utilization_)(Device, Utilization*) = nullptr;
};

}  // namespace

std::vector<GpuLoad> gpu_load(const std::string& library) {
  static const Nvml nvml(library);
  return nvml.load();
}

}  // namespace trireme::cluster
