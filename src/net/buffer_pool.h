#pragma once

#include <memory>
#include <vector>

#include "base/bytes.h"
#include "base/mutex.h"

namespace trireme::net {

/// Reusable payload buffers. Large blocks go back to the kernel on every free otherwise, and come back as page faults.
/// Thread-safe. Keeps at most `kept_bytes` of idle memory.
class BufferPool : public std::enable_shared_from_this<BufferPool> {
 public:
  explicit BufferPool(std::size_t kept_bytes = 64u << 20) : kept_bytes_(kept_bytes) {}
  ~BufferPool();

  /// A buffer of `bytes` with undefined content, aligned to 64; returns to the pool with its last owner.
  std::shared_ptr<std::byte> take(std::size_t bytes);

 private:
  struct Block {
    std::byte* memory;
    std::size_t capacity;
  };

  void give_back(Block block);

  const std::size_t kept_bytes_;
  Mutex mutex_;
  std::size_t idle_bytes_ TRIREME_GUARDED_BY(mutex_) = 0;
  std::vector<Block> idle_ TRIREME_GUARDED_BY(mutex_);
};

}  // namespace trireme::net
