#pragma once

#include <functional>
#include <memory>

#include <torch/types.h>

namespace trireme::device {

/// Work of a GPU that was recorded once and is started again as a whole, not kernel by kernel (a CUDA graph). It reads
/// and writes the very memory that it did when it was recorded. Used by the thread that recorded it.
class WorkGraph {
 public:
  virtual ~WorkGraph() = default;

  /// Starts it on the thread's stream.
  virtual void replay() = 0;
};

/// Whether work of this device can be recorded, by this build.
bool can_record(torch::Device device);

/// The thread's work on `device` goes on a stream of its own from now on, which recording needs. Waits for what the
/// device does.
void use_own_stream(torch::Device device);

/// Records what `work` starts on the thread's stream; none of it is done. `beside`, if not null, is one that is never
/// replayed at the same time: they share memory. Throws what `work` throws, and IoError if something of it cannot be
/// recorded, such as the host reading a result.
std::unique_ptr<WorkGraph> record(torch::Device device, const WorkGraph* beside, const std::function<void()>& work);

/// Whether random numbers have been drawn on `device` since its generator was seeded.
bool has_drawn(torch::Device device);

}  // namespace trireme::device
