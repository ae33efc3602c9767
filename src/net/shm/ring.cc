#include "net/shm/ring.h"

#include <algorithm>
#include <bit>

#include "base/error.h"

namespace trireme::net {

struct Ring::Control {
  alignas(64) std::atomic<std::uint64_t> written;   // by the producer
  alignas(64) std::atomic<std::uint64_t> read;      // by the consumer
  alignas(64) std::atomic<std::uint32_t> sleeping;  // by the consumer
};

namespace {
constexpr std::size_t kLengthBytes = 4;
}

static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "positions are shared between processes");

Ring::Ring(MutableBytes memory)
    : control_(reinterpret_cast<Control*>(memory.data())), data_(memory.subspan(kControlBytes)) {
  static_assert(sizeof(Control) == kControlBytes);
  TRIREME_CHECK(std::has_single_bit(data_.size()), "capacity {}", data_.size());
}

bool Ring::push(std::span<const Bytes> parts) {
  std::size_t length = 0;
  for (const Bytes part : parts) length += part.size();
  if (length > max_record()) {
    fail<InvalidArgument>("a message of {} bytes does not fit a ring of {}", length, capacity());
  }
  const std::uint64_t written = control_->written.load(std::memory_order_relaxed);
  const std::uint64_t used = written - control_->read.load(std::memory_order_acquire);
  if (used > capacity()) fail<Corrupt>("the peer's ring position is impossible");
  if (used + kLengthBytes + length > capacity()) return false;

  std::uint64_t position = written;
  const auto length_word = static_cast<std::uint32_t>(length);
  copy_in(position, std::as_bytes(std::span(&length_word, 1)));
  position += kLengthBytes;
  for (const Bytes part : parts) {
    copy_in(position, part);
    position += part.size();
  }
  // Sequentially consistent, as are set_sleeping and the consumer's second look: one of the two sees the other.
  control_->written.store(position, std::memory_order_seq_cst);
  return true;
}

bool Ring::pop(std::string& record) {
  const std::uint64_t read = control_->read.load(std::memory_order_relaxed);
  const std::uint64_t available = control_->written.load(std::memory_order_acquire) - read;
  if (available == 0) return false;
  if (available > capacity() || available < kLengthBytes) fail<Corrupt>("the peer's ring position is impossible");
  std::uint32_t length = 0;
  copy_out(read, std::as_writable_bytes(std::span(&length, 1)));
  if (length > available - kLengthBytes) fail<Corrupt>("a record in the ring claims {} bytes of {}", length, available);
  record.resize(length);
  copy_out(read + kLengthBytes, std::as_writable_bytes(std::span(record)));
  control_->read.store(read + kLengthBytes + length, std::memory_order_release);
  return true;
}

std::size_t Ring::max_record() const { return capacity() - kLengthBytes; }

bool Ring::empty() const {
  return control_->written.load(std::memory_order_seq_cst) == control_->read.load(std::memory_order_relaxed);
}

void Ring::set_sleeping(bool sleeping) { control_->sleeping.store(sleeping ? 1 : 0, std::memory_order_seq_cst); }

bool Ring::consumer_sleeps() const { return control_->sleeping.load(std::memory_order_seq_cst) != 0; }

void Ring::copy_in(std::uint64_t position, Bytes bytes) {
  const std::size_t offset = position & (capacity() - 1);
  const std::size_t first = std::min(bytes.size(), capacity() - offset);
  std::copy_n(bytes.data(), first, data_.data() + offset);
  std::copy_n(bytes.data() + first, bytes.size() - first, data_.data());
}

void Ring::copy_out(std::uint64_t position, MutableBytes bytes) const {
  const std::size_t offset = position & (capacity() - 1);
  const std::size_t first = std::min(bytes.size(), capacity() - offset);
  std::copy_n(data_.data() + offset, first, bytes.data());
  std::copy_n(data_.data(), bytes.size() - first, bytes.data() + first);
}

}  // namespace trireme::net
