#include "net/buffer_pool.h"

#include <algorithm>
#include <bit>
#include <new>

namespace trireme::net {
namespace {

constexpr std::align_val_t kAlignment{64};

void release(std::byte* memory) { ::operator delete(memory, kAlignment); }

}  // namespace

std::shared_ptr<std::byte> BufferPool::take(std::size_t bytes) {
  const std::size_t capacity = std::max<std::size_t>(4096, (bytes + 4095) / 4096 * 4096);
  Block block{nullptr, capacity};
  {
    const MutexLock lock(mutex_);
    // The smallest idle block that fits without wasting more than half of it.
    auto best = idle_.end();
    for (auto it = idle_.begin(); it != idle_.end(); ++it) {
      if (it->capacity >= capacity && it->capacity <= 2 * capacity &&
          (best == idle_.end() || it->capacity < best->capacity)) {
        best = it;
      }
    }
    if (best != idle_.end()) {
      block = *best;
      idle_bytes_ -= block.capacity;
      *best = idle_.back();
      idle_.pop_back();
    }
  }
  if (block.memory == nullptr) block.memory = static_cast<std::byte*>(::operator new(capacity, kAlignment));
  return {block.memory, [pool = weak_from_this(), block](std::byte*) {
            if (const auto owner = pool.lock()) {
              owner->give_back(block);
            } else {
              release(block.memory);
            }
          }};
}

void BufferPool::give_back(Block block) {
  {
    const MutexLock lock(mutex_);
    if (idle_bytes_ + block.capacity <= kept_bytes_) {
      idle_.push_back(block);
      idle_bytes_ += block.capacity;
      return;
    }
  }
  release(block.memory);
}

BufferPool::~BufferPool() {
  for (const Block& block : idle_) release(block.memory);
}

}  // namespace trireme::net
