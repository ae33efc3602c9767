// `trireme ckpt` as a person or a script uses it.

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "checkpoint/safetensors/safetensors.h"
#include "checkpoint/writer.h"
#include "tests/system/program.h"

namespace trireme::system_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// A run with checkpoints of one small tensor, all elements `value`.
class CkptTest : public ::testing::Test {
 protected:
  void write(const std::string& run, Step step, float value, std::optional<double> score = {}) const {
    const std::vector<float> w(6, value);
    checkpoint::Writer writer({.folder = folder_ / run / "checkpoints"});
    ASSERT_TRUE(
        writer.start({.step = step,
                      .tensors = {{"model/w", DType::kF32, {2, 3}}},
                      .meta = {{"step", step}, {"lr", 0.5}},
                      .score = score},
                     std::vector<checkpoint::Piece>{{.tensor = "model/w", .bytes = std::as_bytes(std::span(w))}}));
    ASSERT_TRUE(writer.finish(Deadline::in(60s))->complete);
  }

  Outcome ckpt(std::vector<std::string> words) const {
    words.insert(words.begin(), "ckpt");
    return run_trireme(folder_, words);
  }

  void spoil(const std::string& file) const {
    std::fstream out(folder_ / file, std::ios::binary | std::ios::in | std::ios::out);
    out.seekp(5).put('!');
  }

  const TempFolder folder_;
};

TEST_F(CkptTest, ListsCheckpoints) {
  write("run", 10, 1, 0.9);
  write("run", 20, 2, 0.3);
  std::filesystem::create_directory(folder_ / "run/checkpoints/step-000000030");
  const Outcome table = ckpt({"ls", "run"});
  EXPECT_EQ(table.status, 0) << table.err;
  EXPECT_THAT(table.out,
              AllOf(HasSubstr("step"), HasSubstr("24 B"), HasSubstr("complete    best"), HasSubstr("incomplete")));
  const auto rows = ckpt({"ls", "run/checkpoints", "--json"}).json();
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].at("best"), true);
  EXPECT_EQ(rows[1].at("score"), 0.3);
  EXPECT_EQ(rows[2].at("state"), "incomplete");
}

TEST_F(CkptTest, ShowsMetaAndStatistics) {
  write("run", 10, 1.5);
  const Outcome text = ckpt({"show", "run"});
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_THAT(text.out, AllOf(HasSubstr("step 10"), HasSubstr("/lr"), HasSubstr("model/w"), HasSubstr("[2, 3]"),
                              HasSubstr("1.5")));
  const auto shown = ckpt({"show", "run/checkpoints/step-000000010", "--json"}).json();
  EXPECT_EQ(shown.at("meta").at("lr"), 0.5);
  EXPECT_EQ(shown.at("tensors")[0].at("mean"), 1.5);
  EXPECT_THAT(ckpt({"show", "run", "--quick"}).out, AllOf(HasSubstr("model/w"), ::testing::Not(HasSubstr("norm"))));
}

TEST_F(CkptTest, VerifyNamesTheDamage) {
  write("run", 10, 1);
  EXPECT_EQ(ckpt({"verify", "run"}).status, 0);
  spoil("run/checkpoints/step-000000010/part-0-of-1.1.bin");
  const Outcome damaged = ckpt({"verify", "run"});
  EXPECT_EQ(damaged.status, 1);
  EXPECT_THAT(damaged.out, AllOf(HasSubstr("block 0 (bytes 0 to 23)"), HasSubstr("'model/w'"), HasSubstr("DAMAGED")));
  EXPECT_EQ(ckpt({"verify", "run", "--json"}).json().at("sound"), false);
  spoil("run/checkpoints/step-000000010/manifest.json");
  EXPECT_THAT(ckpt({"verify", "run"}).out, HasSubstr("manifest.json is damaged"));
  EXPECT_THAT(ckpt({"ls", "run"}).out, HasSubstr("DAMAGED"));
}

TEST_F(CkptTest, DiffTellsInWhatTheyDiffer) {
  write("a", 10, 1);
  write("b", 10, 1);
  write("b", 20, 1.25);
  const Outcome same = ckpt({"diff", "a", "b", "--step-b", "10"});
  EXPECT_EQ(same.status, 0);
  EXPECT_EQ(same.out, "identical\n");
  const Outcome differ = ckpt({"diff", "a", "b"});
  EXPECT_EQ(differ.status, 1);
  EXPECT_THAT(differ.out, AllOf(HasSubstr("meta /step: 10 | 20"), HasSubstr("0.25"), HasSubstr("6 of 6")));
  EXPECT_EQ(ckpt({"diff", "a", "b", "--json"}).json().at("tensors")[0].at("max_abs_difference"), 0.25);
}

TEST_F(CkptTest, ExportsAndImports) {
  write("run", 10, 3);
  EXPECT_EQ(ckpt({"export", "run", "model.safetensors"}).status, 0);
  EXPECT_EQ(checkpoint::SafetensorsFile(folder_ / "model.safetensors").at("w").shape,
            (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(ckpt({"import", "model.safetensors", "other"}).status, 0);
  EXPECT_EQ(ckpt({"show", "other", "--json"}).json().at("tensors")[0].at("max"), 3);
  EXPECT_EQ(ckpt({"import", "model.safetensors", "other"}).status, 2) << "it is there already";
}

TEST_F(CkptTest, ExportsToTorchArchivesAndImportsThem) {
  write("run", 10, 3);
  const Outcome exported = ckpt({"export", "run", "model.pt"});
  EXPECT_EQ(exported.status, 0) << exported.err;
  EXPECT_THAT(exported.out, AllOf(HasSubstr("model.pt: 1 tensors of step 10"), HasSubstr("optimizer's state is not")));
  const Outcome imported = ckpt({"import", "model.pt", "first"});
  EXPECT_EQ(imported.status, 0) << imported.err;
  EXPECT_EQ(ckpt({"diff", "run", "first", "--json"}).json().at("tensors").size(), 0u);
  EXPECT_EQ(ckpt({"import", "model.pt", "first"}).status, 2) << "it is there already";

  EXPECT_EQ(ckpt({"export", "first", "model.pt"}).status, 0);  // once round: now all is the same
  EXPECT_EQ(ckpt({"import", "model.pt", "second"}).status, 0);
  EXPECT_EQ(ckpt({"diff", "first", "second"}).out, "identical\n");

  const Outcome all = ckpt({"export", "run", "all.pt", "--all"});
  EXPECT_EQ(all.status, 2);
  EXPECT_THAT(all.err, AllOf(HasSubstr("all.pt"), HasSubstr("--all needs safetensors")));
}

TEST_F(CkptTest, ADamagedTorchArchiveIsAnErrorInWords) {
  write("run", 10, 3);
  ASSERT_EQ(ckpt({"export", "run", "model.pt"}).status, 0);
  const std::string whole = read_file(folder_ / "model.pt");
  folder_.write("truncated.pt", whole.substr(0, whole.size() / 2));
  folder_.write("garbage.pth", "no archive at all");
  folder_.write("empty.pt", "");
  for (const std::string file : {"truncated.pt", "garbage.pth", "empty.pt"}) {
    const Outcome outcome = ckpt({"import", file, "other"});
    EXPECT_EQ(outcome.status, 1) << file;
    EXPECT_THAT(outcome.err, AllOf(HasSubstr("trireme: " + file), HasSubstr("damaged")));
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  }
  EXPECT_FALSE(std::filesystem::exists(folder_ / "other"));
}

TEST_F(CkptTest, ATorchArchiveThatTakesTooLongIsGivenUp) {
  write("run", 10, 3);
  ASSERT_EQ(ckpt({"export", "run", "model.pt"}).status, 0);
  const Outcome outcome = ckpt({"import", "model.pt", "other", "--time-limit", "0.001"});  // LibTorch starts for longer
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err,
              AllOf(HasSubstr("model.pt"), HasSubstr("not finished after 0.001 s"), HasSubstr("--time-limit")));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "other"));
}

TEST_F(CkptTest, MistakesAreNamed) {
  write("run", 10, 1);
  const Outcome word = ckpt({"lss", "run"});
  EXPECT_EQ(word.status, 2);
  EXPECT_THAT(word.err, HasSubstr("did you mean 'ls'?"));
  EXPECT_THAT(ckpt({"show", "nowhere"}).err, HasSubstr("nowhere is not a folder"));
  EXPECT_THAT(ckpt({"show", "run", "--step", "11"}).err, HasSubstr("no checkpoint of step 11; it has 10"));
}

}  // namespace
}  // namespace trireme::system_test
