#pragma once

#include <memory>

#include "trireme/deadline.h"

#include "collective/communicator.h"

namespace trireme::collective {

/// NCCL as an engine: the ranks of `bootstrap`, each with a GPU of its own, `device`.
///
///   Communicator hosts(endpoint, {.rank = rank, .members = addresses});
///   Communicator gpus(make_nccl_backend(hosts, local_rank));
///   gpus.run(all_reduce(Array(DType::kBF16, gradient_on_gpu, count)));
///
/// Arrays are in device memory, which must be complete when the operation starts and is complete when it ends (nothing
/// is ordered against streams of the caller), or in host memory, which is copied through pinned buffers.
///
/// NCCL has no deadlines, does not compare calls and hangs when a rank dies. So everything except the data goes over
/// the native engine, by subgroups of `bootstrap`: calls are compared there before a kernel is launched, and a thread
/// of each rank keeps in touch with the others, so that a kernel that waits for a dead rank is aborted (PeerLost, in
/// under a second), as is one that does not end by its deadline. A rank that was stopped for longer than the deadline
/// of `bootstrap` counts as lost; and both sides of a message must be posted within it.
///
/// Differences from the native engine:
/// - sums are in the order and with the rounding that NCCL chooses: not bit-identical for another number of ranks or
///   another NCCL. Averages of floating-point numbers are sums of numbers divided first. How min and max treat NaN is
///   up to NCCL.
/// - I16, which NCCL does not support, and averages of integers, which it does not truncate as we do, are gathered and
///   reduced on the host: exact and slow.
/// - messages use a separate NCCL communicator for each pair and direction, created when first needed (connecting takes
///   a while): with a common one, ranks that send in a circle would wait for each other forever.
///
/// A collective call; blocks until all ranks have called it. Throws as Communicator does, InvalidArgument if there is
/// no such device, IoError for CUDA errors. `reconfigure` is not possible: reconfigure `bootstrap` and make a new one.
/// `bootstrap` must be on the native engine, outlive the result, and carry only one of these at a time.
std::unique_ptr<Backend> make_nccl_backend(Communicator& bootstrap, int device, Deadline deadline = Deadline::in(60s));

}  // namespace trireme::collective
