#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <span>

namespace trireme::bench {

/// Zeros in private memory, in large pages where the kernel grants them: what suits a library that copies or that
/// reads its peers' memory through the kernel, both of which pay for each page.
class LargeBuffer {
 public:
  LargeBuffer() = default;

  /// Throws std::bad_alloc.
  explicit LargeBuffer(std::size_t elements) : elements_(elements) {
    const std::size_t bytes = (elements * sizeof(float) + kPage - 1) / kPage * kPage;
    data_.reset(static_cast<float*>(std::aligned_alloc(kPage, bytes)));
    if (!data_) throw std::bad_alloc();
    ::madvise(data_.get(), bytes, MADV_HUGEPAGE);  // a wish: small pages are as right, only slower
    std::uninitialized_fill_n(data_.get(), elements, 0.0f);
  }

  std::span<float> span() const { return {data_.get(), elements_}; }

 private:
  static constexpr std::size_t kPage = std::size_t{2} << 20;

  struct Free {
    void operator()(float* data) const { std::free(data); }
  };

  std::unique_ptr<float, Free> data_;
  std::size_t elements_ = 0;
};

}  // namespace trireme::bench
