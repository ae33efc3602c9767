#pragma once

#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "trireme/tensor_parallel.h"

#include "tests/collective/testing.h"

namespace trireme::parallel {

/// Tensors by name that a rank computed; slices of the whole where `slices` has them.
struct Computed {
  std::map<std::string, torch::Tensor> tensors = {};
  std::map<std::string, ParameterSlice> slices = {};
};

/// The same bits, not the same numbers: NaN equals itself, and -0 is not +0.
inline bool same_bits(const torch::Tensor& a, const torch::Tensor& b) {
  if (a.sizes() != b.sizes() || a.scalar_type() != b.scalar_type()) return false;
  const torch::Tensor x = a.contiguous(), y = b.contiguous();
  return std::memcmp(x.data_ptr(), y.data_ptr(), x.nbytes()) == 0;
}

using Compute = std::function<Computed(TensorGroup& group)>;

/// Computes alone with so many lanes.
inline Computed alone(Lane lanes, const Compute& compute) {
  torch::set_num_threads(1);
  TensorGroup group(lanes);
  return compute(group);
}

/// Computes with `size` ranks, which are threads; returns what each of them got.
inline std::vector<Computed> with_ranks(std::uint32_t size, Lane lanes, const Compute& compute) {
  std::vector<Computed> all(size);
  collective::expect_ranks(size, {}, [&](collective::Communicator& ranks) {
    torch::set_num_threads(1);  // OpenMP keeps this for each thread
    TensorGroup group(ranks, lanes);
    all[ranks.rank()] = compute(group);
  });
  return all;
}

/// What `size` ranks compute is what one computes, bit for bit.
inline void expect_same(const Computed& whole, std::uint32_t size, Lane lanes, const Compute& compute) {
  const std::vector<Computed> all = with_ranks(size, lanes, compute);
  for (std::uint32_t rank = 0; rank < size; ++rank) {
    ASSERT_EQ(all[rank].tensors.size(), whole.tensors.size()) << "rank " << rank << " of " << size;
    for (const auto& [name, tensor] : all[rank].tensors) {
      const auto slice = all[rank].slices.find(name);
      const torch::Tensor& expected = whole.tensors.at(name);
      const torch::Tensor part = slice == all[rank].slices.end() ? expected : slice_of(expected, slice->second);
      EXPECT_TRUE(same_bits(tensor, part))
          << name << " of rank " << rank << " of " << size << ", " << lanes << " lanes: apart by "
          << (tensor.sizes() == part.sizes() ? (tensor - part).abs().max().item<double>() : -1.0);
    }
  }
}

/// Waits until all ranks have made their layers: torch's default generator belongs to all threads, and who computes
/// already would seed it while another still draws initial values.
inline void all_made(TensorGroup& group) { group.whole_length(1, "all are made"); }

/// Torch's default generator belongs to all threads: modules are made one at a time.
inline std::mutex& making_modules() {
  static std::mutex mutex;
  return mutex;
}

/// Adds the gradients of a module's parameters, with their slices.
inline void add_gradients(Computed& computed, const torch::nn::Module& module) {
  for (const auto& parameter : module.named_parameters()) {
    computed.tensors["d " + parameter.key()] = parameter.value().grad().clone();
    computed.tensors[parameter.key()] = parameter.value().detach().clone();
  }
  for (const auto& [name, slice] : parameter_slices(module)) {
    computed.slices["d " + name] = slice;
    computed.slices[name] = slice;
  }
}

}  // namespace trireme::parallel
