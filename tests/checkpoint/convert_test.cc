#include "checkpoint/safetensors/convert.h"

#include "base/error.h"
#include "checkpoint/safetensors/safetensors.h"
#include "tests/checkpoint/testing.h"
#include "tests/support/expect_fails.h"

namespace trireme::checkpoint {
namespace {

class ConvertTest : public ::testing::Test {
 protected:
  Checkpoint write(const State& state, Step step) {
    EXPECT_TRUE(write_state({.folder = folder_ / "checkpoints"}, state, step).complete);
    return Checkpoint::open(step_path(folder_ / "checkpoints", step));
  }

  const TempFolder folder_;
  const std::filesystem::path file_ = folder_ / "model.safetensors";
};

TEST_F(ConvertTest, ExportsTheModelUnderPlainNames) {
  const State state = make_state(1);
  const ConversionReport report = export_safetensors(write(state, 40), file_);
  EXPECT_EQ(report.tensors, 5u);
  const SafetensorsFile file(file_);
  EXPECT_EQ(file.tensors().size(), 5u);
  EXPECT_EQ(file.at("conv1.weight").shape, state.tensors[0].shape);
  EXPECT_TRUE(std::ranges::equal(file.at("conv1.weight").data, state.bytes[0]));
  EXPECT_EQ(file.at("none").data.size(), 0u);
  EXPECT_EQ(file.find("steps"), nullptr) << "of the optimizer";
  EXPECT_EQ(file.metadata().at("trireme.step"), "40");
}

TEST_F(ConvertTest, ExportWithAllRoundTrips) {
  const State state = make_state(1);
  export_safetensors(write(state, 40), file_, {.all = true});
  import_safetensors(file_, folder_ / "other");
  const Checkpoint back = Checkpoint::open(step_path(folder_ / "other", 40));
  for (std::size_t i = 0; i < state.tensors.size(); ++i) {
    EXPECT_EQ(back.at(state.tensors[i].name), state.tensors[i]);
    EXPECT_EQ(back.read(state.tensors[i].name), state.bytes[i]);
  }
  EXPECT_EQ(back.meta(), state.meta);
  EXPECT_FAILS(import_safetensors(file_, folder_ / "other"), InvalidArgument, "is there already");
  export_safetensors(write(state, 30), file_, {.all = true});
  EXPECT_FAILS(import_safetensors(file_, folder_ / "other"), InvalidArgument, "step 40 already", "as step 30");
}

TEST_F(ConvertTest, AModelIsImportedAtStepZero) {
  const State state = make_state(1);
  export_safetensors(write(state, 40), file_);
  EXPECT_EQ(import_safetensors(file_, folder_ / "other").tensors, 5u);
  const Checkpoint back = Checkpoint::open(step_path(folder_ / "other", 0));
  EXPECT_EQ(back.read("model/conv1.weight"), state.bytes[0]);
  EXPECT_EQ(back.read("buffer/mask"), state.bytes[4]);
}

TEST_F(ConvertTest, MetadataOfOthersIsNotTrusted) {
  const State state = small_state(1);
  const std::vector<TensorView> views = {{"w", DType::kF32, {2, 3}, state.bytes[0]}};
  write_safetensors(file_, views,
                    {{"trireme.buffers", std::string(100'000, '[')}, {"trireme.step", "-7"}, {"trireme.names", "odd"}});
  import_safetensors(file_, folder_ / "a");
  EXPECT_EQ(Checkpoint::open(step_path(folder_ / "a", 0)).read("model/w"), state.bytes[0]);
  write_safetensors(file_, views, {{"trireme.meta", std::string(100'000, '[')}, {"trireme.names", "whole"}});
  import_safetensors(file_, folder_ / "b");
  EXPECT_EQ(Checkpoint::open(step_path(folder_ / "b", 0)).meta(), nlohmann::json());
}

TEST_F(ConvertTest, RefusesNameClashesAndCheckpointsWithoutAModel) {
  const State clash = make_state(1, {{"model/w", DType::kU8, {1}}, {"buffer/w", DType::kU8, {1}}});
  EXPECT_FAILS(export_safetensors(write(clash, 1), file_), InvalidArgument, "both called 'w'", "--all");
  const State none = make_state(1, {{"optimizer/w", DType::kU8, {1}}});
  EXPECT_FAILS(export_safetensors(write(none, 2), file_), InvalidArgument, "no tensor under model/");
}

}  // namespace
}  // namespace trireme::checkpoint
