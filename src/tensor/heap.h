#pragma once

#include <cstdint>

namespace trireme {

/// From now on memory that was freed stays with this process, up to what it needed at its peak, where the C library can
/// be told so (glibc). Each step allocates what the step before freed; given back in between, it comes as pages that
/// the kernel has to clear: a small GPT on two cores is a third slower that way. Call it before training.
void keep_freed_memory();

/// Has the library of matrix products take its working memory now. OpenBLAS takes 128 MiB at the first product, and
/// tries again forever if it gets none: late in a process whose memory is limited (ulimit, cgroup) that would be a
/// hang. Call it before anything else takes memory. Throws InvalidArgument, which says what to do, if there is too
/// little.
void reserve_product_memory();

/// From now on what LibTorch allocates on the host is counted, in bytes: an addition for each tensor. For all threads;
/// call it before tensors are made. Calls after the first do nothing. Thread-safe.
void count_tensor_memory();

/// Returns the most that tensors took at once since `reset_tensor_peak`; 0 if nobody counts. Memory that Trireme gives
/// to tensors (parameters, gradients) is not in it.
std::uint64_t tensor_peak();

/// From now on the peak is what tensors take now, or more.
void reset_tensor_peak();

}  // namespace trireme
