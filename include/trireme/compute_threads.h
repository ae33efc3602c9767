#pragma once

namespace trireme {

/// Sets how many threads LibTorch computes with, in this process, and the BLAS library under it, which it does not
/// always reach: results may depend on both.
void set_compute_threads(int threads);

}  // namespace trireme
