#include <gtest/gtest.h>

#include "trireme/checkpoint.h"

#include "base/error.h"
#include "checkpoint/safetensors/convert.h"
#include "tests/support/expect_fails.h"
#include "tests/support/temp_folder.h"

namespace trireme {
namespace {

/// With parameters, buffers, and a weight that has two names.
struct Net : torch::nn::Module {
  explicit Net(double value, std::int64_t width = 3) : head(2, width) {
    register_module("head", head);
    register_module("norm", norm);
    tied = register_parameter("tied", head->weight);
    const torch::NoGradGuard no_grad;
    for (torch::Tensor& tensor : parameters()) tensor.fill_(value);
    for (torch::Tensor& tensor : buffers()) tensor.fill_(value);
  }
  torch::nn::Linear head;
  torch::nn::BatchNorm1d norm{2};
  torch::Tensor tied;
};

bool all_are(const torch::nn::Module& module, double value) {
  for (const torch::Tensor& tensor : module.parameters()) {
    if (!tensor.eq(value).all().item<bool>()) return false;
  }
  for (const torch::Tensor& tensor : module.buffers()) {
    if (!tensor.eq(value).all().item<bool>()) return false;
  }
  return true;
}

class LoadModel : public ::testing::Test {
 protected:
  const TempFolder folder_;
  const std::filesystem::path file_ = folder_ / "m.safetensors";
};

TEST_F(LoadModel, ReadsWhatSaveModelWrote) {
  save_model(Net(5), file_);
  Net net(1);
  const LoadReport report = load_model(net, file_);
  EXPECT_TRUE(all_are(net, 5));
  EXPECT_EQ(report.loaded, 7u) << "4 parameters, one of which has two names, and 3 buffers";
  EXPECT_EQ(report.of, 7u);
  EXPECT_EQ(net.tied.data_ptr(), net.head->weight.data_ptr());
  EXPECT_TRUE(net.head->weight.requires_grad());
}

TEST_F(LoadModel, ReadsCheckpointsAndRuns) {
  save_model(Net(5), file_);
  checkpoint::import_safetensors(file_, folder_ / "run/checkpoints");
  for (const char* path : {"run", "run/checkpoints", "run/checkpoints/step-000000000"}) {
    Net net(1);
    load_model(net, folder_ / path);
    EXPECT_TRUE(all_are(net, 5)) << path;
  }
  std::filesystem::create_directory(folder_ / "empty");
  Net net(1);
  EXPECT_FAILS(load_model(net, folder_ / "empty"), InvalidArgument, "no complete checkpoint");
  EXPECT_FAILS(load_model(net, folder_ / "none"), InvalidArgument, "no file or folder");
}

TEST_F(LoadModel, NamesWhatDoesNotFitAndChangesNothing) {
  save_model(Net(5, 4), file_);
  Net net(1);
  EXPECT_FAILS(load_model(net, file_), InvalidArgument, "m.safetensors", "'tied' is Float [4, 2]",
               "Float [3, 2] in the model", "'head.bias'");
  save_model(*torch::nn::Linear(2, 3), file_);
  EXPECT_FAILS(load_model(net, file_), InvalidArgument, "'tied' is missing", "and 6 more");
  save_model(Net(5), file_);
  torch::nn::BatchNorm1d norm(2);
  EXPECT_FAILS(load_model(*norm, file_), InvalidArgument, "'weight' is missing");
  EXPECT_TRUE(all_are(net, 1));
}

TEST_F(LoadModel, APrefixTakesAPart) {
  save_model(Net(5), file_);
  Net net(1);
  struct Other : torch::nn::Module {
    torch::nn::BatchNorm1d trunk = register_module("trunk", torch::nn::BatchNorm1d(2));
    torch::nn::Linear head = register_module("head", torch::nn::Linear(2, 9));
  } other;
  EXPECT_FAILS(load_model(other, file_, {.prefix = "norm."}), InvalidArgument, "the model has no 'bias'");
  EXPECT_FAILS(load_model(other, file_, {.prefix = "backbone."}), InvalidArgument, "prefix 'backbone.'");
  torch::nn::BatchNorm1d norm(2);
  const LoadReport report = load_model(*norm, file_, {.prefix = "norm."});
  EXPECT_EQ(report.loaded, 5u);
  EXPECT_TRUE(all_are(*norm, 5));
  // The model has more than the file: the rest keeps its values.
  save_model(*torch::nn::Sequential(torch::nn::BatchNorm1d(2)), file_);
  torch::nn::Sequential two(torch::nn::BatchNorm1d(2), torch::nn::Linear(2, 2));
  const torch::Tensor before = two->parameters().back().clone();
  EXPECT_FAILS(load_model(*two, file_), InvalidArgument, "'1.weight' is missing");
  struct Whole : torch::nn::Module {
    explicit Whole(const torch::nn::Sequential& inner) { register_module("backbone", inner); }
  };
  save_model(Whole(torch::nn::Sequential(torch::nn::BatchNorm1d(2))), file_);
  const LoadReport part = load_model(*two, file_, {.prefix = "backbone."});
  EXPECT_EQ(part.loaded, 5u);
  EXPECT_EQ(part.of, 7u);
  EXPECT_TRUE(two->parameters().back().equal(before));
}

TEST_F(LoadModel, ConvertsFloatingPointTypesAndNoOthers) {
  torch::nn::Linear half(2, 3);
  half->to(torch::kBFloat16);
  save_model(*half, file_);
  torch::nn::Linear net(2, 3);
  load_model(*net, file_);
  EXPECT_EQ(net->weight.scalar_type(), torch::kFloat32);
  EXPECT_TRUE(net->weight.equal(half->weight.to(torch::kFloat32)));
  struct Counts : torch::nn::Module {
    explicit Counts(torch::ScalarType type) { register_buffer("count", torch::ones({2}, type)); }
  };
  save_model(Counts(torch::kInt64), file_);
  Counts floats(torch::kFloat32);
  EXPECT_FAILS(load_model(floats, file_), InvalidArgument, "'count' is Long [2], and Float [2] in the model");
}

TEST_F(LoadModel, DamagedFilesAreNamed) {
  save_model(Net(5), file_);
  const std::string whole = read_file(file_);
  folder_.write("cut.safetensors", whole.substr(0, whole.size() - 1));
  Net net(1);
  EXPECT_FAILS(load_model(net, folder_ / "cut.safetensors"), Corrupt, "cut.safetensors");
  EXPECT_TRUE(all_are(net, 1));
}

}  // namespace
}  // namespace trireme
