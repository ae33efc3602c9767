#pragma once

#include <atomic>
#include <cstdint>

namespace trireme::ps {

/// The parameters change inside its scope; readers in other processes see that.
class WriteScope {
 public:
  explicit WriteScope(std::atomic<std::uint64_t>& word) : word_(word) {
    word_.store(word_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);
  }
  ~WriteScope() { word_.store(word_.load(std::memory_order_relaxed) + 1, std::memory_order_release); }
  WriteScope(const WriteScope&) = delete;
  WriteScope& operator=(const WriteScope&) = delete;

 private:
  std::atomic<std::uint64_t>& word_;
};

}  // namespace trireme::ps
