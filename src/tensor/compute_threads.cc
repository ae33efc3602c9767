#include "trireme/compute_threads.h"

#include <dlfcn.h>

#include <torch/utils.h>

namespace trireme {

void set_compute_threads(int threads) {
  torch::set_num_threads(threads);
  // LibTorch sets MKL's, but not OpenBLAS's, which it may have been linked with.
  using SetThreads = void (*)(int);
  if (const auto set = reinterpret_cast<SetThreads>(::dlsym(RTLD_DEFAULT, "openblas_set_num_threads"))) set(threads);
}

}  // namespace trireme
