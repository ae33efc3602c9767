// Features that are spread over processes: each reads its columns alone, and feeds a first layer that is divided by
// inputs.

#include <fstream>
#include <numeric>

#include "trireme/sources.h"
#include "trireme/transforms.h"

#include "tests/support/temp_folder.h"
#include "tests/tensor_parallel/tensor_ranks.h"

namespace trireme::parallel {
namespace {

constexpr std::int64_t kFeatures = 100'000;
constexpr std::int64_t kSamples = 12;

/// A table of NumPy: samples × features.
std::string write_table(const TempFolder& folder) {
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (" + std::to_string(kSamples) + ", " +
                       std::to_string(kFeatures) + "), }";
  header.resize(118, ' ');
  at::Generator generator = at::detail::createCPUGenerator(3);
  const torch::Tensor values = torch::randn({kSamples, kFeatures}, generator);
  const std::string path = (folder / "wide.npy").string();
  std::ofstream file(path, std::ios::binary);
  file.write("\x93NUMPY\x01\x00\x76\x00", 10).write(header.data(), 118);
  file.write(static_cast<const char*>(values.data_ptr()), static_cast<std::streamsize>(values.nbytes()));
  return path;
}

struct WideNet : torch::nn::Module {
  explicit WideNet(TensorGroup& group)
      : wide(register_module("wide", RowParallelLinear(group, torch::nn::Linear(kFeatures, 8)))),
        out(register_module("out", torch::nn::Linear(8, 1))) {}

  torch::Tensor forward(const torch::Tensor& features) { return out(torch::tanh(wide->forward_features(features))); }

  RowParallelLinear wide;
  torch::nn::Linear out;
};

TEST(ColumnBlocks, HundredThousandFeatures_NoProcessHasAWholeRow_SameBits) {
  const TempFolder folder;
  const std::string table = write_table(folder);
  const auto train = [&](TensorGroup& group) {
    const Range own = group.part(kFeatures);
    std::vector<std::uint64_t> mine(static_cast<std::size_t>(own.size()));
    std::iota(mine.begin(), mine.end(), static_cast<std::uint64_t>(own.begin));
    const data::DatasetPtr samples = data::columns(data::load_npy({table}), "wide", mine);
    EXPECT_EQ(samples->schema()[0].elements(), static_cast<std::size_t>(kFeatures / group.size()));
    std::unique_lock lock(making_modules());
    torch::manual_seed(1);
    WideNet net(group);
    lock.unlock();
    EXPECT_EQ(net.wide->weight.numel(), 8 * kFeatures / group.size());
    torch::optim::SGD sgd(net.parameters(), torch::optim::SGDOptions(1e-4).momentum(0.9));
    data::Batch batch;
    for (int step = 0; step < 3; ++step) {
      std::vector<std::uint64_t> rows(4);
      std::iota(rows.begin(), rows.end(), static_cast<std::uint64_t>(4 * step));
      samples->read(rows, batch);
      const torch::Tensor x = torch::from_blob(batch.bytes(0).data(), {4, own.size()});
      sgd.zero_grad();
      (net.forward(x) - 1).square().mean().backward();
      sgd.step();
    }
    Computed computed;
    add_gradients(computed, net);
    return computed;
  };
  const Computed whole = alone(4, train);
  for (const std::uint32_t size : {2, 4}) expect_same(whole, size, 4, train);
}

}  // namespace
}  // namespace trireme::parallel
