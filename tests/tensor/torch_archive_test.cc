#include "tensor/files/torch_archive.h"

#include <sys/resource.h>

#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/list.h"
#include "checkpoint/writer.h"
#include "elastic/state_sync.h"
#include "models/lenet.h"
#include "tensor/files/torch_checkpoint.h"
#include "tensor/torch_dtype.h"
#include "tests/support/expect_fails.h"
#include "tests/support/temp_folder.h"
#include "tests/train/alone.h"

namespace trireme {
namespace {

using checkpoint::Checkpoint;

const std::vector<std::int64_t> kImage{1, 28, 28};

/// Has what makes archives difficult: buffers, a scalar among them, modules without tensors, nested ones, a parameter
/// that is not there, frozen ones, and a weight with two names.
class OddNetImpl : public torch::nn::Module {
 public:
  OddNetImpl() {
    torch::nn::Linear first(torch::nn::LinearOptions(4, 4).bias(false));
    torch::nn::Linear second(4, 4);
    second->bias.set_requires_grad(false);
    second->weight = second->register_parameter("tied", first->weight);
    register_module("layers", torch::nn::Sequential(first, torch::nn::ReLU(), second));
    register_module("norm", torch::nn::BatchNorm1d(4));
    register_module("drop", torch::nn::Dropout(0.5));
    register_parameter("scale", torch::randn({2, 3}, torch::kFloat64));
    register_buffer("mask", torch::rand({5}) > 0.5);
  }
};
TORCH_MODULE(OddNet);

/// A checkpoint as the trainer writes it, with state that only an optimizer has.
Checkpoint write_checkpoint(const std::filesystem::path& folder, const torch::nn::Module& module) {
  std::vector<NamedParameter> state = non_trainable_state(module);
  for (const NamedParameter& parameter : trainable_parameters(module)) {
    state.push_back({"model/" + parameter.name, parameter.tensor});
    state.push_back({"optimizer/" + parameter.name + "/0", parameter.tensor});
  }
  checkpoint::PartInfo info{.step = 7, .meta = {{"module", describe_module(module)}}};
  std::vector<checkpoint::Piece> pieces;
  for (const NamedParameter& piece : state) {
    info.tensors.push_back({piece.name, *dtype_of(piece.tensor.scalar_type()), piece.tensor.sizes().vec()});
    pieces.push_back({.tensor = piece.name,
                      .bytes = {static_cast<const std::byte*>(piece.tensor.data_ptr()), piece.tensor.nbytes()}});
  }
  checkpoint::Writer writer({.folder = folder});
  EXPECT_TRUE(writer.start(std::move(info), pieces));
  EXPECT_TRUE(writer.finish(Deadline::in(60s))->complete);
  return Checkpoint::open(folder / checkpoint::step_folder_name(7));
}

void expect_same(const torch::nn::Module& a, const torch::nn::Module& b) {
  const auto compare = [](const auto& in_a, const auto& in_b) {
    ASSERT_EQ(in_a.keys(), in_b.keys());
    for (const auto& item : in_a) EXPECT_TRUE(torch::equal(item.value(), in_b[item.key()])) << item.key();
  };
  compare(a.named_parameters(), b.named_parameters());
  compare(a.named_buffers(), b.named_buffers());
}

class TorchArchiveTest : public ::testing::Test {
 protected:
  /// What reading a file of this content fails with; empty if it does not.
  std::string problem_with(const std::string& content) const {
    try {
      read_torch_archive(folder_.write("bad.pt", content));
      return "";
    } catch (const Corrupt& problem) {
      return problem.what();
    }
  }

  const TempFolder folder_;
  const std::string file_ = (folder_ / "model.pt").string();
};

TEST_F(TorchArchiveTest, ExportedFileIsLoadedByTorch) {
  const Model trained = whole_model(models::lenet(kImage, 10));
  const auto report = export_torch_archive(write_checkpoint(folder_ / "checkpoints", *trained.module), file_);
  EXPECT_EQ(report.tensors, 10u);
  Model fresh = whole_model(models::lenet(kImage, 10));
  torch::load(fresh.module, file_);
  expect_same(*fresh.module, *trained.module);

  torch::serialize::InputArchive archive;  // also name by name
  archive.load_from(file_);
  torch::serialize::InputArchive conv1;
  archive.read("conv1", conv1);
  torch::Tensor weight;
  conv1.read("weight", weight);
  EXPECT_TRUE(torch::equal(weight, trained.module->named_parameters()["conv1.weight"]));
  EXPECT_EQ(archive.keys().size(), 5u) << "nothing of the optimizer";
}

TEST_F(TorchArchiveTest, ExportedFileIsLoadedIntoAnUnusualModule) {
  const OddNet trained;
  export_torch_archive(write_checkpoint(folder_ / "checkpoints", *trained), file_);
  OddNet fresh;
  torch::load(fresh, file_);
  expect_same(*fresh, *trained);
}

TEST_F(TorchArchiveTest, CheckpointOfTheTrainerRecordsModulesWithoutTensors) {
  const auto make = [] {
    return torch::nn::Sequential(torch::nn::Linear(2, 8), torch::nn::BatchNorm1d(8), torch::nn::Dropout(0.5),
                                 torch::nn::Linear(8, 2));
  };
  AloneJob job;
  const torch::nn::Sequential trained = make();
  Trainer(*job, trained, {.batch = 20, .steps = 3, .strategy = cluster::parse_strategy("allreduce")})
      .fit(make_points(100));
  const auto newest = checkpoint::latest_complete(*job->folder() / "checkpoints");
  ASSERT_TRUE(newest);
  export_torch_archive(Checkpoint::open(*newest), file_);
  torch::nn::Sequential fresh = make();
  torch::load(fresh, file_);
  expect_same(*fresh, *trained);
}

TEST_F(TorchArchiveTest, FileOfTorchSaveIsImportedAndExportedAgain) {
  const OddNet trained;
  torch::save(trained, file_);
  import_torch_archive(file_, folder_ / "checkpoints");
  const Checkpoint imported = Checkpoint::open(folder_ / "checkpoints" / checkpoint::step_folder_name(0));
  EXPECT_NE(imported.find("model/layers.2.bias"), nullptr);
  EXPECT_EQ(imported.at("buffer/norm.num_batches_tracked").dtype, DType::kI64);
  EXPECT_EQ(imported.at("model/scale").shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(imported.at("buffer/mask").dtype, DType::kBool);
  EXPECT_FAILS(import_torch_archive(file_, folder_ / "checkpoints"), InvalidArgument, "is there already");

  export_torch_archive(imported, (folder_ / "again.pt").string());
  OddNet fresh;
  torch::load(fresh, (folder_ / "again.pt").string());
  expect_same(*fresh, *trained);
}

TEST_F(TorchArchiveTest, EveryElementTypeRoundTrips) {
  TorchArchive archive;
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kF16, DType::kBF16, DType::kI8, DType::kU8, DType::kI16,
                            DType::kI32, DType::kI64, DType::kBool}) {
    archive.tensors.push_back(
        {.name = "t." + std::string(name_of(dtype)), .tensor = torch::ones({2, 2}, scalar_type_of(dtype))});
  }
  write_torch_archive(file_, archive);
  const TorchArchive back = read_torch_archive(file_);
  ASSERT_EQ(back.tensors.size(), archive.tensors.size());
  for (const TorchArchive::Entry& entry : back.tensors) {
    EXPECT_EQ("t." + std::string(name_of(*dtype_of(entry.tensor.scalar_type()))), entry.name);
    EXPECT_TRUE(entry.tensor.to(torch::kFloat32).eq(1).all().item<bool>()) << entry.name;
  }
}

TEST_F(TorchArchiveTest, NamesThatAnArchiveCannotHold) {
  const auto write = [&](const std::vector<std::string>& names) {
    TorchArchive archive;
    for (const std::string& name : names) archive.tensors.push_back({.name = name, .tensor = torch::ones({1})});
    write_torch_archive(file_, archive);
  };
  for (const std::string bad : {"", ".", "a.", ".a", "a..b", "a\"]\n  def __setstate__(self)", "a\\b", "a\nb"}) {
    EXPECT_FAILS(write({bad}), InvalidArgument, "'" + bad + "'");
  }
  EXPECT_FAILS(write({"a.b", "a.b.c"}), InvalidArgument, "both a tensor and a module 'a.b'");
  EXPECT_FALSE(std::filesystem::exists(file_));
  write({"0", "a-b.c d", "\xC3\xA9"});
  EXPECT_EQ(read_torch_archive(file_).tensors.size(), 3u);
}

TEST_F(TorchArchiveTest, RefusesFilesThatAreNotArchives) {
  EXPECT_THAT(problem_with(""), ::testing::HasSubstr("damaged"));
  EXPECT_THAT(problem_with("garbage"), ::testing::HasSubstr("bad.pt is damaged, or was not written by torch::save"));
  EXPECT_THAT(problem_with(std::string(100'000, 'x')), ::testing::HasSubstr("damaged"));
  EXPECT_FAILS(read_torch_archive(folder_ / "none.pt"), IoError, "none.pt");
  EXPECT_FAILS(read_torch_archive(folder_.path()), IoError, folder_.path().string());
}

TEST_F(TorchArchiveTest, TruncatedAnywhere) {
  torch::save(torch::nn::Linear(4, 4), file_);
  const std::string whole = read_file(file_);
  for (std::size_t length = 0; length < whole.size(); length += 97) {
    EXPECT_THAT(problem_with(whole.substr(0, length)), ::testing::HasSubstr("damaged")) << length;
  }
}

TEST_F(TorchArchiveTest, CodeIsNotRun) {
  torch::jit::Module module("__torch__.Sly");
  module.register_parameter("w", torch::ones({2}), /*is_buffer=*/false);
  module.define("def forward(self, x):\n  return self.w\n");
  module.save(file_);
  EXPECT_FAILS(read_torch_archive(file_), Corrupt, file_, "holds code", "code/");
}

TEST_F(TorchArchiveTest, AShapeBeyondItsBytesIsRefused) {
  TorchArchive archive{.tensors = {{.name = "w", .tensor = torch::ones({7})}}};
  write_torch_archive(file_, archive);
  std::string bytes = read_file(file_);
  const std::string shape = "(K\7t";  // in the pickle: a tuple of the number 7
  const std::size_t at = bytes.find(shape);
  ASSERT_NE(at, std::string::npos);
  bytes[at + 2] = 8;
  EXPECT_THAT(problem_with(bytes), ::testing::HasSubstr("'w' is larger than its bytes"));
  EXPECT_EQ(problem_with(read_file(file_)), "") << "the file itself is sound";
}

/// While it lives, no file of this process can grow beyond `bytes`, as on a disk that is full.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{.rlim_cur = bytes, .rlim_max = before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    handler_ = std::signal(SIGXFSZ, SIG_IGN);
  }
  ~FullDisk() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

 private:
  rlimit before_{};
  void (*handler_)(int) = nullptr;
};

TEST_F(TorchArchiveTest, AFullDiskIsAnErrorAndLeavesTheOldFile) {
  write_torch_archive(file_, {.tensors = {{.name = "w", .tensor = torch::ones({2})}}});
  {
    const FullDisk full(10'000);
    EXPECT_FAILS(write_torch_archive(file_, {.tensors = {{.name = "w", .tensor = torch::ones({100'000})}}}), IoError,
                 file_);
  }
  EXPECT_EQ(read_torch_archive(file_).tensors.at(0).tensor.numel(), 2);
}

}  // namespace
}  // namespace trireme
