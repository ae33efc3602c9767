// The results: those of the serial reference, for arrays in host and in device memory.
#include <cmath>
#include <numeric>

#include <gtest/gtest.h>

#include "tests/collective/nccl/gpus.h"
#include "tests/collective/reference.h"
#include "tests/collective/suite.h"

namespace trireme::collective {
namespace {

/// Memory of a GPU.
template <typename T>
class OnDevice {
 public:
  explicit OnDevice(const std::vector<T>& values) : count_(values.size()) {
    EXPECT_EQ(cudaMalloc(&memory_, count_ * sizeof(T)), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(memory_, values.data(), count_ * sizeof(T), cudaMemcpyDefault), cudaSuccess);
  }
  ~OnDevice() { cudaFree(memory_); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

  Array array() { return {DTypeOf<T>::value, memory_, count_}; }
  Array part(std::size_t first, std::size_t count) {
    return {DTypeOf<T>::value, static_cast<T*>(memory_) + first, count};
  }
  std::vector<T> values() const {
    std::vector<T> values(count_);
    EXPECT_EQ(cudaMemcpy(values.data(), memory_, count_ * sizeof(T), cudaMemcpyDefault), cudaSuccess);
    return values;
  }

 private:
  std::size_t count_;
  void* memory_ = nullptr;
};

TEST(NcclCollectives, EverythingAgreesWithTheReference) {
  for (const std::uint32_t size : {1u, 3u}) {
    expect_gpus(size, {}, [](Communicator& gpus) {
      EXPECT_EQ(gpus.transport(), "nccl");
      // The order of NCCL's sums is its own: only a rank alone, and the stand-in, give the reference's bits.
      const bool other_bits = !kStandIn && gpus.size() > 1;
      check_everything(gpus, {.large = Scope::Large::kFew, .any_order = other_bits});
    });
  }
}

template <typename T>
void check_reductions(Communicator& gpus) {
  const std::uint32_t n = gpus.size();
  constexpr std::size_t kCount = 100'003;
  std::vector<T> mine(kCount);
  std::vector<T> sum(kCount);
  for (Rank rank = 0; rank < n; ++rank) {
    for (std::size_t i = 0; i < kCount; ++i) {
      const T value = static_cast<T>((i * (rank + 3)) % 11);
      if (rank == gpus.rank()) mine[i] = value;
      sum[i] = static_cast<T>(sum[i] + value);
    }
  }
  {
    OnDevice<T> data(mine);
    gpus.run(all_reduce(data.array()));
    EXPECT_EQ(data.values(), sum);
  }
  OnDevice<T> data(mine);
  gpus.run(all_reduce(data.array(), {.op = ReduceOp::kAverage}));
  const auto average = data.values();
  for (std::size_t i = 0; i < kCount; ++i) {
    const double exact = static_cast<double>(sum[i]) / n;
    ASSERT_NEAR(static_cast<double>(average[i]), std::is_integral_v<T> ? std::trunc(exact) : exact, 1e-5);
  }
}

TEST(NcclCollectives, ReductionsOnDeviceMemory) {
  expect_gpus(3, {}, [](Communicator& gpus) {
    check_reductions<float>(gpus);
    check_reductions<double>(gpus);
    check_reductions<std::int16_t>(gpus);
    check_reductions<std::int32_t>(gpus);
    check_reductions<std::int64_t>(gpus);
  });
}

TEST(NcclCollectives, PartsOnDeviceMemoryInPlace) {
  expect_gpus(3, {}, [](Communicator& gpus) {
    const std::uint32_t n = gpus.size();
    std::vector<std::size_t> counts;
    for (Rank rank = 0; rank < n; ++rank) counts.push_back(1'000 * rank);  // uneven, and one empty
    const std::size_t total = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
    std::vector<float> everything;
    for (Rank rank = 0; rank < n; ++rank) everything.insert(everything.end(), counts[rank], static_cast<float>(rank));
    const std::size_t at = std::accumulate(counts.begin(), counts.begin() + gpus.rank(), std::size_t{0});
    std::vector<float> own(total);
    std::fill_n(own.begin() + static_cast<std::ptrdiff_t>(at), counts[gpus.rank()], static_cast<float>(gpus.rank()));
    if (total > 0) {
      OnDevice<float> data(own);
      gpus.run(all_gather(data.part(at, counts[gpus.rank()]), data.array(), counts));
      EXPECT_EQ(data.values(), everything);
    }
    std::vector<std::int32_t> numbers(4 * n);
    std::iota(numbers.begin(), numbers.end(), static_cast<std::int32_t>(100 * gpus.rank()));
    OnDevice<std::int32_t> exchanged(numbers);
    gpus.run(all_to_all(exchanged.array(), exchanged.array()));
    const auto values = exchanged.values();
    for (Rank from = 0; from < n; ++from) {
      EXPECT_EQ(values[4 * from + 1], static_cast<std::int32_t>(100 * from + 4 * gpus.rank() + 1));
    }
  });
}

TEST(NcclCollectives, MessagesInARingDuringReductions) {
  expect_gpus(3, {}, [](Communicator& gpus) {
    const std::uint32_t n = gpus.size();
    if (n == 1) return;
    const Rank right = (gpus.rank() + 1) % n;
    const Rank left = (gpus.rank() + n - 1) % n;
    OnDevice<float> sent(std::vector<float>(50'000, static_cast<float>(gpus.rank())));
    OnDevice<float> received(std::vector<float>(50'000));
    OnDevice<float> sum(std::vector<float>(1'000, 1.0f));
    for (int turn = 0; turn < 10; ++turn) {
      Handle sending = gpus.start(send(sent.array(), right));
      Handle reducing = gpus.start(all_reduce(sum.array(), {.op = ReduceOp::kMax}));
      gpus.run(recv(received.array(), left));
      sending.wait();
      reducing.wait();
      EXPECT_EQ(received.values(), std::vector<float>(50'000, static_cast<float>(left)));
    }
  });
}

}  // namespace
}  // namespace trireme::collective
