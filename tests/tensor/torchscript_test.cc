#include "tensor/files/torchscript.h"

#include <gtest/gtest.h>

#include "trireme/trainer.h"

#include "base/error.h"
#include "base/file.h"
#include "tests/support/expect_fails.h"
#include "tests/support/temp_folder.h"

namespace trireme {
namespace {

// Made by tests/system/training/make_script.py.
std::filesystem::path fixture(const std::string& name) {
  return std::filesystem::path(TRIREME_SOURCE_DIR) / "tests/system/fixtures" / name;
}

const data::Schema kImages{{.name = "image", .shape = {1, 28, 28}},
                           {.name = "label", .dtype = DType::kI64, .role = data::Role::kTarget, .classes = {10}}};

TEST(TorchScript, TensorsAreThoseThatForwardUses) {
  const Model model = load_torchscript(fixture("net.pt"));
  EXPECT_TRUE(is_torchscript(model));
  std::vector<std::string> names;
  for (const auto& item : model.module->named_parameters()) names.push_back(item.key());
  EXPECT_EQ(names, (std::vector<std::string>{"conv.weight", "conv.bias", "norm.weight", "norm.bias", "body.0.weight",
                                             "body.0.bias", "body.2.weight", "body.2.bias"}));
  EXPECT_EQ(model.module->named_buffers().size(), 3u);
  const torch::NoGradGuard no_grad;
  model.module->eval();
  for (torch::Tensor& tensor : model.module->parameters()) tensor.zero_();
  model.module->named_parameters()["body.2.bias"].fill_(7);
  EXPECT_TRUE(model.forward(torch::ones({2, 1, 28, 28})).eq(7).all().item<bool>());
}

TEST(TorchScript, TrainingModeReachesTheScript) {
  const Model model = load_torchscript(fixture("net.pt"));
  const torch::Tensor images = torch::randn({8, 1, 28, 28});
  const auto mean = [&] { return model.module->named_buffers()["norm.running_mean"].clone(); };
  const torch::Tensor before = mean();
  model.module->eval();
  model.forward(images);
  EXPECT_TRUE(torch::equal(mean(), before));
  model.module->train();
  model.forward(images);
  EXPECT_FALSE(torch::equal(mean(), before)) << "batch norm measures while it trains";
}

TEST(TorchScript, SavedAndLoadedAgain_IsTheSame) {
  const TempFolder folder;
  const Model model = load_torchscript(fixture("traced.pt"));
  {
    const torch::NoGradGuard no_grad;
    for (torch::Tensor& tensor : model.module->parameters()) tensor.add_(0.5);
  }
  save_torchscript(model, folder / "model.pt");
  const Model again = load_torchscript(folder / "model.pt");
  EXPECT_EQ(hash_state(*again.module), hash_state(*model.module));
  EXPECT_FAILS(save_torchscript(Model(torch::nn::Linear(1, 1)), folder / "other.pt"), InvalidArgument, "TorchScript");
}

TEST(TorchScript, Try_RefusesWhatDoesNotFitTheSamples) {
  EXPECT_NO_THROW(try_torchscript(fixture("net.pt"), kImages, "classification", 10));
  EXPECT_FAILS(try_torchscript(fixture("net.pt"), kImages, "classification", 12), InvalidArgument,
               "gives 10 numbers per sample", "task classification needs 12");
  EXPECT_FAILS(try_torchscript(fixture("wide.pt"), kImages, "classification", 10), InvalidArgument, "field 'image'");
  EXPECT_FAILS(try_torchscript(fixture("two_inputs.pt"), kImages, "classification", 10), InvalidArgument,
               "takes 2 input(s)");
  EXPECT_FAILS(load_torchscript(fixture("no_forward.pt")), InvalidArgument, "has no forward");
}

}  // namespace
}  // namespace trireme
