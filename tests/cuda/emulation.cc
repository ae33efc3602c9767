#include "cuda/emulation.h"

#include <ucontext.h>

#include <memory>
#include <mutex>
#include <vector>

#include "base/error.h"

namespace trireme::cuda::emulation {

Place place;

namespace {

constexpr std::size_t kStackBytes = 64 << 10;
constexpr unsigned kWarp = 32;

/// A barrier of as many threads as are alive.
struct Barrier {
  unsigned alive = 0;
  unsigned waiting = 0;
  unsigned round = 0;

  void open_if_complete() {
    if (waiting < alive || waiting == 0) return;
    waiting = 0;
    ++round;
  }
};

struct Fiber {
  ucontext_t context = {};
  std::unique_ptr<std::byte[]> stack = std::make_unique<std::byte[]>(kStackBytes);
  dim3 thread;
  bool ended = false;
};

/// The block that runs now.
struct Block {
  std::vector<Fiber> fibers;
  std::vector<Barrier> warps;
  Barrier all;
  std::vector<std::uint32_t> slots;
  std::vector<float4> shared;
  ucontext_t scheduler = {};
  unsigned current = 0;
  const std::function<void()>* thread = nullptr;
};
Block block;

void run_fiber() {
  (*block.thread)();
  Fiber& own = block.fibers[block.current];
  own.ended = true;
  Barrier& warp = block.warps[block.current / kWarp];
  --warp.alive;
  warp.open_if_complete();
  --block.all.alive;
  block.all.open_if_complete();
  swapcontext(&own.context, &block.scheduler);
}

void wait_at(Barrier& barrier) {
  const unsigned round = barrier.round;
  ++barrier.waiting;
  barrier.open_if_complete();
  while (barrier.round == round) swapcontext(&block.fibers[block.current].context, &block.scheduler);
}

void run_block(dim3 size) {
  const unsigned threads = size.x * size.y * size.z;
  block.fibers.resize(threads);
  block.slots.assign(threads, 0);
  block.warps.assign((threads + kWarp - 1) / kWarp, {});
  block.all = {.alive = threads};
  for (unsigned i = 0; i < threads; ++i) {
    Fiber& fiber = block.fibers[i];
    ++block.warps[i / kWarp].alive;
    fiber.thread = {i % size.x, i / size.x % size.y, i / size.x / size.y};
    fiber.ended = false;
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.get();
    fiber.context.uc_stack.ss_size = kStackBytes;
    makecontext(&fiber.context, run_fiber, 0);
  }
  for (unsigned idle_rounds = 0; block.all.alive > 0; ++idle_rounds) {
    const unsigned before = block.all.alive + block.all.round;
    for (block.current = 0; block.current < threads; ++block.current) {
      Fiber& fiber = block.fibers[block.current];
      if (fiber.ended) continue;
      place.thread = fiber.thread;
      swapcontext(&block.scheduler, &fiber.context);
    }
    unsigned warp_rounds = 0;
    for (const Barrier& warp : block.warps) warp_rounds += warp.round;
    static unsigned last_warp_rounds = 0;
    if (block.all.alive + block.all.round != before || warp_rounds != last_warp_rounds) idle_rounds = 0;
    last_warp_rounds = warp_rounds;
    TRIREME_CHECK(idle_rounds < 4, "a kernel waits for threads that do not come");
  }
}

}  // namespace

void* dynamic_shared() { return block.shared.data(); }
void block_barrier() { wait_at(block.all); }
void warp_barrier() { wait_at(block.warps[block.current / kWarp]); }
std::uint32_t& exchange_slot(unsigned thread) { return block.slots.at(thread); }
unsigned thread_number() { return block.current; }

void run(dim3 grid, dim3 size, std::size_t shared_bytes, const std::function<void()>& thread) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  block.thread = &thread;
  block.shared.resize((shared_bytes + sizeof(float4) - 1) / sizeof(float4));
  place.grid = grid;
  place.block_size = size;
  for (unsigned y = 0; y < grid.y; ++y) {
    for (unsigned x = 0; x < grid.x; ++x) {
      place.block = {x, y};
      run_block(size);
    }
  }
}

}  // namespace trireme::cuda::emulation
