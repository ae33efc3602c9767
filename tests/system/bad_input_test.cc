// What people get wrong, and what they are told: a status above 0 and words that help, before anything starts.

#include <netinet/in.h>
#include <sys/socket.h>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "tests/system/program.h"

namespace trireme::system_test {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using Flags = std::vector<std::string>;
using Message = ::testing::Matcher<const std::string&>;

constexpr const char* kSecret = "0123456789abcdef0123456789abcdef";

class BadInput : public ::testing::Test {
 protected:
  /// The command ends with a status above 0, says `message` on standard error and nothing on standard output.
  void refuse(const Flags& arguments, const Message& message, const Program::Environment& env = {}) {
    const Outcome outcome = run_trireme(folder_, arguments, env);
    EXPECT_GT(outcome.status, 0);
    EXPECT_LT(outcome.status, 128) << "it crashed";
    EXPECT_THAT(outcome.err, message);
    EXPECT_EQ(outcome.out, "");
  }

  void refuse_train(Flags flags, const Message& message) {
    flags.insert(flags.begin(), {"train", "--json", "--data-dir", images_.string()});
    refuse(flags, message);
    EXPECT_FALSE(std::filesystem::exists(folder_ / "runs")) << "refused, but a run folder was made";
  }

  TempFolder folder_;
  const std::filesystem::path images_ = make_images(folder_);
};

TEST_F(BadInput, UnknownNamesAreAnsweredWithTheClosest) {
  refuse_train({"--model", "lennet"}, AllOf(HasSubstr("no model 'lennet'"), HasSubstr("did you mean 'lenet'?")));
  refuse_train({"--optimizer", "adan"}, AllOf(HasSubstr("unknown optimizer 'adan'"), HasSubstr("did you mean 'adam")));
  refuse_train({"--consistency", "bps"}, AllOf(HasSubstr("unknown consistency 'bps'"), HasSubstr("ssp:<lead>")));
  refuse_train({"--transport", "tpc"}, AllOf(HasSubstr("unknown transport 'tpc'"), HasSubstr("tcp")));
  refuse_train({"--data", "fashion-minst"}, AllOf(HasSubstr("'fashion-minst'"), HasSubstr("mean 'fashion-mnist'?")));
  refuse_train({"--device", "gpu"}, AllOf(HasSubstr("--device gpu"), HasSubstr("cuda")));
}

TEST_F(BadInput, InvalidNumbersAreRefused) {
  refuse_train({"--batch", "0"}, HasSubstr("--batch 0"));
  refuse_train({"--workers", "0"}, HasSubstr("--workers 0"));
  refuse_train({"--servers", "0"}, HasSubstr("--servers 0"));
  refuse_train({"--epochs", "0"}, HasSubstr("--epochs 0"));
  refuse_train({"--batch", "many"}, AllOf(HasSubstr("--batch"), HasSubstr("many")));
  refuse_train({"--batch", "-1"}, HasSubstr("--batch"));
  refuse_train({"--lr", "0"}, HasSubstr("--lr 0"));
  refuse_train({"--lr", "nan"}, HasSubstr("--lr"));
  refuse_train({"--consistency", "ssp:-1"}, HasSubstr("ssp:4"));
  refuse_train({"--backup-workers", "2"}, HasSubstr("2 backup workers of 2"));
  refuse_train({"--slow", "1"}, HasSubstr("--slow 1"));
}

TEST_F(BadInput, LanesThatDoNotFit) {
  refuse_train({"--lanes", "1", "--workers", "2"}, AllOf(HasSubstr("--lanes 1"), HasSubstr("2 workers")));
  refuse_train({"--lanes", "65", "--batch", "64"}, HasSubstr("more lanes than samples in a batch"));
  refuse_train({"--lanes", "641"}, HasSubstr("more lanes than samples: 641 lanes, 640 samples"));
  refuse_train({"--batch", "641"}, HasSubstr("larger than the data"));
}

TEST_F(BadInput, MissingData) {
  refuse({"train", "--data-dir", (folder_ / "nowhere").string()},
         AllOf(HasSubstr("nowhere"), HasSubstr("dataset-fashion-mnist"), HasSubstr("--data synthetic")));
  refuse({"train", "--data", "none.csv"}, HasSubstr("none.csv"));
}

TEST_F(BadInput, InvalidDataFoldersAreRefused) {
  refuse({"train", "--data-dir", "a,,b"}, AllOf(HasSubstr("--data-dir 'a,,b'"), HasSubstr("empty part")));
  refuse({"train", "--data-dir", "nowhere,neither"}, AllOf(HasSubstr("(1)"), HasSubstr("nowhere"), HasSubstr("(2)"),
                                                           HasSubstr("neither"), HasSubstr("--data synthetic")));
  refuse({"train", "--data", "/table.csv", "--data-dir", "a,b"}, AllOf(HasSubstr("/table.csv"), HasSubstr("its name")));
}

TEST_F(BadInput, TruncatedData) {
  const std::filesystem::path images = images_ / "train-images-idx3-ubyte";
  std::filesystem::resize_file(images, std::filesystem::file_size(images) / 2);
  refuse_train({}, AllOf(HasSubstr(images.string()), HasSubstr("truncated"), HasSubstr("expected")));
}

TEST_F(BadInput, TruncatedGzip) {
  const std::string whole = read_file("/usr/share/datasets/fashion-mnist/t10k-labels-idx1-ubyte.gz");
  std::filesystem::remove(images_ / "t10k-labels-idx1-ubyte");
  folder_.write("images/t10k-labels-idx1-ubyte.gz", whole.substr(0, whole.size() / 2));
  refuse_train({}, AllOf(HasSubstr("t10k-labels-idx1-ubyte.gz"), HasSubstr("cut short"), HasSubstr("byte ")));
}

TEST_F(BadInput, AConfigFileWithATypo) {
  const std::string file = folder_.write("run.toml", "batch = 32\nepoch = 3\n").string();
  refuse_train({"--config", file}, AllOf(HasSubstr("'epoch'"), HasSubstr("did you mean 'epochs'?")));
  folder_.write("run.toml", "[train]\nbatch = 32\n");
  refuse_train({"--config", file}, HasSubstr("[train]"));
  folder_.write("run.toml", "batch = lots\n");
  refuse_train({"--config", file}, AllOf(HasSubstr("batch"), HasSubstr("lots")));
  refuse_train({"--config", (folder_ / "none.toml").string()}, HasSubstr("none.toml"));
}

TEST_F(BadInput, UnknownCommandOrFlagIsRefused) {
  refuse({"trains"}, AllOf(HasSubstr("no command 'trains'"), HasSubstr("did you mean 'train'?")));
  refuse({}, HasSubstr("needs a command"));
  refuse_train({"--epocs", "3"}, HasSubstr("--epocs"));
  refuse({"run", "-w", "2"}, HasSubstr("which program?"));
  refuse({"run", "-w", "0", "--", "/bin/true"}, HasSubstr("--workers 0"));
}

TEST_F(BadInput, ARunFolderThatIsInUse) {
  folder_.write("metrics.jsonl", "{}\n");
  refuse_train({"--out", folder_.path().string()}, AllOf(HasSubstr("already holds a run"), HasSubstr("--overwrite")));
  EXPECT_EQ(read_file(folder_ / "metrics.jsonl"), "{}\n");
}

TEST_F(BadInput, APortInUse) {
  const FileDescriptor holder(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  ASSERT_EQ(::bind(holder.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(::listen(holder.get(), 1), 0);
  ASSERT_EQ(::getsockname(holder.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  const std::string taken = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  refuse({"master", "--listen", taken}, AllOf(HasSubstr("cannot listen on " + taken), HasSubstr("in use")),
         {{"TRIREME_SECRET", kSecret}});
}

TEST_F(BadInput, NoSecret) {
  refuse({"master"}, HasSubstr("--secret-file"));
  refuse({"serve", "--master", "127.0.0.1:1"}, HasSubstr("--secret-file"));
  refuse({"serve"}, HasSubstr("--master host:port"), {{"TRIREME_SECRET", kSecret}});
}

TEST_F(BadInput, AnotherJobsSecretIsRefusedAndTheMasterLivesOn) {
  const std::string announce = (folder_ / "master.json").string();
  Program master(folder_, trireme({"master", "--announce", announce}), {{"TRIREME_SECRET", kSecret}});
  ASSERT_TRUE(eventually([&] { return std::filesystem::exists(announce); })) << master.err();
  const auto told = nlohmann::json::parse(read_file(announce));
  const std::string address = "127.0.0.1:" + std::to_string(told.at("port").get<int>());

  const Outcome stranger =
      run_trireme(folder_, {"serve", "--master", address}, {{"TRIREME_SECRET", "ffffffffffffffffffffffffffffffff"}});
  EXPECT_GT(stranger.status, 0);
  EXPECT_THAT(stranger.err, HasSubstr("secret"));

  Program server(folder_, trireme({"serve", "--master", address}), {{"TRIREME_SECRET", kSecret}});
  EXPECT_TRUE(eventually([&] { return master.err().find("server 0") != std::string::npos; }))
      << "the right secret is welcome: " << master.err() << server.err();
  server.send(SIGTERM);
  master.send(SIGTERM);
  master.wait();
  server.wait();
}

TEST_F(BadInput, ErrorsOfWorkersReachTheUser) {
  const std::string table = folder_
                                .write("table.csv",
                                       [] {
                                         std::string rows = "a,b,label\n";
                                         for (int i = 0; i < 30; ++i)
                                           rows += fmt::format("{},{},{}\n", i, i + 1, i % 2);
                                         return rows;
                                       }())
                                .string();
  refuse({"train", "--json", "--data", table, "--batch", "2"}, AllOf(HasSubstr("28 x 28"), HasSubstr("use mlp")));
  refuse({"train", "--json", "--data-dir", images_.string(), "--schedule", "cosin"},
         AllOf(HasSubstr("'cosin'"), HasSubstr("did you mean 'cosine'?")));
}

TEST_F(BadInput, ALossThatIsNotFiniteEndsTheJob) {
  for (const char* consistency : {"bsp", "asp"}) {
    const std::string run = (folder_ / consistency).string();
    const Outcome outcome = run_trireme(folder_, {"train", "--json", "--data-dir", images_.string(), "--out", run,
                                                  "--consistency", consistency, "--optimizer", "sgd", "--lr", "1e30"});
    EXPECT_GT(outcome.status, 0);
    EXPECT_THAT(outcome.err, AllOf(HasSubstr("the loss is "), HasSubstr(" at step "), HasSubstr(", lane "),
                                   HasSubstr("learning rate")));
  }
}

}  // namespace
}  // namespace trireme::system_test
