// The ring in shared memory, with a peer that writes what it likes: the input is a list of operations of ours and of
// the peer's, each one byte and what it needs.
#include "net/shm/ring.h"
#include "tests/fuzz/fuzz.h"

namespace trireme::net {
namespace {

constexpr std::size_t kCapacity = 256;
constexpr std::size_t kBytes = Ring::kControlBytes + kCapacity;

enum Operation : std::uint8_t { kPush, kPop, kWriteWord, kMoveWord, kOperations };

void run(fuzz::Input input) {
  alignas(64) std::array<std::byte, kBytes> memory{};
  Ring ring{MutableBytes(memory)};
  std::string record;
  while (!input.empty()) {
    switch (input.number<std::uint8_t>() % kOperations) {
      case kPush: {
        const Bytes bytes = as_bytes(input.text(input.number<std::uint16_t>() % (kCapacity + 16)));
        fuzz::returns_or_refuses([&] { ring.push(std::array{bytes}); });
        break;
      }
      case kPop:
        fuzz::returns_or_refuses([&] {
          if (ring.pop(record)) fuzz::require(record.size() <= ring.max_record(), "a record larger than the ring");
        });
        break;
      case kWriteWord: {  // the peer's: anywhere, control words included
        const std::size_t at = input.number<std::uint16_t>() % (kBytes / 8) * 8;
        store_le(MutableBytes(memory).subspan(at), input.number<std::uint64_t>());
        break;
      }
      case kMoveWord: {  // a little, so that positions stay plausible
        const std::size_t at = input.number<std::uint8_t>() % 2 * 64;
        const auto by = static_cast<std::uint64_t>(input.number<std::int16_t>());
        store_le(MutableBytes(memory).subspan(at), load_le<std::uint64_t>(Bytes(memory).subspan(at)) + by);
        break;
      }
    }
  }
}

}  // namespace
}  // namespace trireme::net

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  trireme::net::run({data, size});
  return 0;
}
