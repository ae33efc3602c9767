// Jobs that other launchers start: mpirun, torchrun's variables, TF_CONFIG, ps-lite's, Kubernetes'. Each has to end
// with the parameters of the job that Trireme starts itself.

#include <signal.h>
#include <sys/stat.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "tests/support/reserved_port.h"
#include "tests/system/program.h"

namespace trireme::system_test {
namespace {

using ::testing::HasSubstr;
using Words = std::vector<std::string>;
using Environment = Program::Environment;

constexpr const char* kSecret = "0123456789abcdef0123456789abcdef";

class Launchers : public ::testing::Test {
 protected:
  /// 20 steps of LeNet for 2 workers.
  Words train(const Words& flags = {}) const {
    Words words = trireme(
        {"train", "--data-dir", images_.string(), "--json", "--steps", "20", "--batch", "32", "--threads", "1"});
    words.insert(words.end(), flags.begin(), flags.end());
    return words;
  }

  /// Of the job that Trireme starts itself.
  std::string own_parameters(const Words& flags = {}) {
    Words words = train(flags);
    words.insert(words.end(), {"--workers", "2"});
    Program program(folder_, words);
    return parameters(program.wait());
  }

  static std::string parameters(const Outcome& outcome) {
    EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
    const auto result = outcome.status == 0 ? outcome.json() : nlohmann::json::object();
    EXPECT_EQ(result.value("parameters_sha256", "").size(), 64u) << outcome.out << outcome.err;
    return result.value("parameters_sha256", "");
  }

  static Words mpirun(int ranks, const Words& command, const Words& flags = {}) {
    Words words{"/usr/bin/env", "mpirun", "--oversubscribe", "-np", std::to_string(ranks)};
    words.insert(words.end(), flags.begin(), flags.end());
    words.insert(words.end(), command.begin(), command.end());
    return words;
  }

  Environment for_mpi() const {
    return {{"OMPI_ALLOW_RUN_AS_ROOT", "1"},
            {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
            {"OMPI_MCA_btl_base_warn_component_unused", "0"},
            {"XDG_RUNTIME_DIR", folder_.path().string()}};
  }

  /// Starts one process for each environment and waits for all; returns what they said, in that order.
  std::vector<Outcome> start_all(const Words& command, const std::vector<Environment>& places) {
    std::vector<std::unique_ptr<Program>> programs;
    for (Environment place : places) {
      place["XDG_RUNTIME_DIR"] = folder_.path().string();
      programs.push_back(std::make_unique<Program>(folder_, command, place));
    }
    std::vector<Outcome> outcomes;
    for (const auto& program : programs) outcomes.push_back(program->wait());
    for (const Outcome& outcome : outcomes) EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
    return outcomes;
  }

  /// As torchrun sets them for the processes of one host; the port is only a part of the job's name there.
  static Environment torchrun(int rank, int ranks, const std::string& port = "29517") {
    return {{"RANK", std::to_string(rank)},
            {"WORLD_SIZE", std::to_string(ranks)},
            {"LOCAL_RANK", std::to_string(rank)},
            {"LOCAL_WORLD_SIZE", std::to_string(ranks)},
            {"GROUP_RANK", "0"},
            {"MASTER_ADDR", "127.0.0.1"},
            {"MASTER_PORT", port},
            {"TORCHELASTIC_RUN_ID", "none"},
            {"TORCHELASTIC_RESTART_COUNT", "0"}};
  }

  /// Nobody's secret is left behind.
  void expect_no_meeting_files() {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_.path())) {
      EXPECT_FALSE(entry.path().filename().string().starts_with(".trireme-")) << entry.path();
    }
  }

  TempFolder folder_;
  const std::filesystem::path images_ = make_images(folder_);
};

TEST_F(Launchers, MpirunGivesTheBitsOfOurOwnLaunch) {
  const std::string wanted = own_parameters();
  EXPECT_EQ(parameters(Program(folder_, mpirun(2, train()), for_mpi()).wait()), wanted);
  const Words all_reduce{"--strategy", "allreduce"};
  EXPECT_EQ(parameters(Program(folder_, mpirun(2, train(all_reduce)), for_mpi()).wait()), wanted);
  expect_no_meeting_files();
}

TEST_F(Launchers, GradientsTravelByMpi) {
  const Words flags{"--strategy", "allreduce", "--backend", "mpi", "--out", "mpi"};
  const std::string wanted = own_parameters({"--strategy", "allreduce"});
  EXPECT_EQ(parameters(Program(folder_, mpirun(2, train(flags)), for_mpi()).wait()), wanted);
  EXPECT_THAT(read_file(folder_ / "mpi/logs/worker-1.log"), HasEvent("engine_connected", {{"engine", "mpi"}}));
}

TEST_F(Launchers, TheMpiEngineNeedsMpirunAndNoServers) {
  const Outcome alone = Program(folder_, train({"--strategy", "allreduce", "--backend", "mpi"})).wait();
  EXPECT_EQ(alone.status, 2);
  EXPECT_THAT(alone.err, HasSubstr("mpirun -np 4 trireme train"));
  const Outcome servers = Program(folder_, mpirun(2, train({"--backend", "mpi"})), for_mpi()).wait();
  EXPECT_EQ(servers.status, 2);
  EXPECT_THAT(servers.err, HasSubstr("use allreduce or local-sgd"));
}

TEST_F(Launchers, AWorkerKilledUnderMpirunComesBackWithTheNativeEngine) {
  const std::string wanted = own_parameters({"--step-ms", "50"});
  Program program(folder_, mpirun(2, train({"--step-ms", "50", "--out", "run"})), for_mpi());
  const pid_t worker = wait_for_member(program.pid(), "worker", 1, folder_ / "run", WantedEvent{"joined", {}});
  ASSERT_GT(worker, 0);
  ::kill(worker, SIGKILL);
  EXPECT_EQ(parameters(program.wait()), wanted);
}

TEST_F(Launchers, TorchrunsVariablesGiveTheBitsOfOurOwnLaunch) {
  EXPECT_EQ(parameters(start_all(train(), {torchrun(0, 2), torchrun(1, 2)})[0]), own_parameters());
  expect_no_meeting_files();
}

TEST_F(Launchers, OfAJobThatTorchrunStartsAgainTheRunGoesOnWhateverItsAgentsCount) {
  const auto place = [](int rank, const std::string& restarts) {
    Environment variables = torchrun(rank, 2);
    variables["TORCHELASTIC_RUN_ID"] = "job7";
    variables["TORCHELASTIC_RESTART_COUNT"] = restarts;
    return variables;
  };
  const Words flags{"--schedule", "constant", "--out", "run"};
  Words half = train(flags);
  std::ranges::replace(half, std::string("20"), std::string("10"));
  start_all(half, {place(0, "0"), place(1, "0")});
  EXPECT_EQ(parameters(start_all(train(flags), {place(0, "0"), place(1, "1")})[0]),
            own_parameters({"--schedule", "constant"}));
  Environment other = place(0, "0");
  other["TORCHELASTIC_RUN_ID"] = "job8";
  const Outcome refused = Program(folder_, train({"--out", "run"}), other).wait();
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.err, HasSubstr("already holds a run"));
}

TEST_F(Launchers, ASchedulersWarningToEveryProcessEndsTheJobWithACheckpoint) {
  const Words command = train({"--step-ms", "500", "--out", "run"});
  std::vector<std::unique_ptr<Program>> programs;
  for (const int rank : {0, 1}) {
    Environment place = torchrun(rank, 2);
    place["XDG_RUNTIME_DIR"] = folder_.path().string();
    programs.push_back(std::make_unique<Program>(folder_, command, place));
  }
  ASSERT_GT(wait_for_member(programs[0]->pid(), "worker", 0, folder_ / "run", WantedEvent{"joined", {}}), 0);
  const auto log = folder_ / "run/logs/master.log";
  ASSERT_TRUE(eventually([&] { return has_event(read_file(log), "view_formed"); }));
  for (const auto& program : programs) {  // as sbatch --signal=USR1@120 does
    for (const pid_t pid : descendants(program->pid())) ::kill(pid, SIGUSR1);
    program->send(SIGUSR1);
  }
  const Outcome first = programs[0]->wait();
  EXPECT_EQ(first.status, 0) << first.out << first.err;
  EXPECT_EQ(programs[1]->wait().status, 0) << programs[1]->err();
  EXPECT_EQ(first.json().value("stopped_because", ""), "asked to stop");
  EXPECT_TRUE(std::filesystem::exists(folder_ / "run/model.safetensors"));
}

TEST_F(Launchers, EventsAreToldOnceNotByEachRank) {
  const Words flags{"--on-event", "cat >> told; echo >> told", "--out", "run"};
  start_all(train(flags), {torchrun(0, 2), torchrun(1, 2)});
  const std::string told = read_file(folder_ / "told");
  std::size_t ends = 0;
  for (std::size_t at = 0; (at = told.find(R"("event":"finish")", at)) != std::string::npos; ++at) ++ends;
  EXPECT_EQ(ends, 1u) << told;
}

TEST_F(Launchers, TwoServersAreWithTheWorkersOfTheSameRank) {
  const auto outcomes = start_all(train({"--servers", "2", "--out", "run"}), {torchrun(0, 2), torchrun(1, 2)});
  EXPECT_EQ(parameters(outcomes[0]), own_parameters());
  EXPECT_TRUE(std::filesystem::exists(folder_ / "run/logs/server-1.log"));
}

TEST_F(Launchers, TorchrunOnOtherHostsNeedsASecret) {
  Environment place = torchrun(0, 2);
  place["MASTER_ADDR"] = "192.0.2.1";
  place["LOCAL_WORLD_SIZE"] = "1";
  place["LOCAL_RANK"] = "0";
  const Outcome outcome = Program(folder_, train(), place).wait();
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, HasSubstr("TRIREME_SECRET_FILE"));
  EXPECT_THAT(outcome.err, HasSubstr("TRIREME_RENDEZVOUS"));
}

TEST_F(Launchers, AMeetingFileThatOthersCanReadIsNotUsed) {
  std::filesystem::create_directory(folder_ / "trireme");
  std::filesystem::permissions(folder_ / "trireme", std::filesystem::perms::owner_all);
  const auto planted = folder_ / "trireme/.trireme-torchrun-none-127.0.0.1_29517.json";
  write_file_atomically(planted, as_bytes(std::string("{}")));
  ::chmod(planted.c_str(), 0644);
  Environment place = torchrun(1, 2);
  place["XDG_RUNTIME_DIR"] = folder_.path().string();
  const Outcome outcome = Program(folder_, train(), place).wait();
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, HasSubstr("others can read or write the secret"));
}

TEST_F(Launchers, TfConfigGivesTheBitsOfOurOwnLaunch) {
  const std::string at = "127.0.0.1:";
  const ReservedPort first;
  const ReservedPort second;
  const ReservedPort server;
  const nlohmann::json cluster{{"worker", {at + first.text(), at + second.text()}}, {"ps", {at + server.text()}}};
  const auto place = [&](const std::string& type, int index) {
    const nlohmann::json config{{"cluster", cluster}, {"task", {{"type", type}, {"index", index}}}};
    return Environment{{"TF_CONFIG", config.dump()}, {"TRIREME_SECRET", kSecret}};
  };
  const auto outcomes = start_all(train({"--out", "run"}), {place("worker", 0), place("worker", 1), place("ps", 0)});
  EXPECT_EQ(parameters(outcomes[0]), own_parameters());
}

TEST_F(Launchers, PsLitesRolesGiveTheBitsOfOurOwnLaunch) {
  const auto place = [](const std::string& role) {
    return Environment{{"DMLC_ROLE", role},
                       {"DMLC_PS_ROOT_URI", "127.0.0.1"},
                       {"DMLC_PS_ROOT_PORT", "45127"},
                       {"DMLC_NUM_WORKER", "2"},
                       {"DMLC_NUM_SERVER", "1"}};
  };
  const auto outcomes =
      start_all(train({"--out", "run"}), {place("scheduler"), place("server"), place("worker"), place("worker")});
  EXPECT_EQ(parameters(outcomes[0]), own_parameters());
}

TEST_F(Launchers, ANodeOfKubeflowStartsItsWorkers) {
  const auto place = [](int node) {
    return Environment{{"PET_NNODES", "2"},
                       {"PET_NPROC_PER_NODE", "1"},
                       {"PET_NODE_RANK", std::to_string(node)},
                       {"PET_MASTER_ADDR", "127.0.0.1"},
                       {"PET_MASTER_PORT", "45137"}};
  };
  EXPECT_EQ(parameters(start_all(train({"--out", "run"}), {place(0), place(1)})[0]), own_parameters());
}

TEST_F(Launchers, PodsOfAnIndexedJobFindEachOtherByName) {
  // A file of names that only these processes see: they are in a mount namespace of their own.
  write_file_atomically(folder_ / "hosts",
                        as_bytes(std::string("127.0.0.1 localhost digits-0.digits digits-1.digits\n")));
  if (Program(folder_, {"/usr/bin/unshare", "-m", "true"}).wait().status != 0) {
    GTEST_SKIP() << "mount namespaces are not permitted here";
  }
  Words command{"/usr/bin/unshare", "-m", "sh", "-c", "mount --bind hosts /etc/hosts && exec \"$@\"", "sh"};
  for (const std::string& word : train({"--out", "run"})) command.push_back(word);
  const ReservedPort port;
  const auto place = [&](int index) {
    return Environment{{"JOB_COMPLETION_INDEX", std::to_string(index)},
                       {"HOSTNAME", "digits-" + std::to_string(index)},
                       {"TRIREME_PODS", "2"},
                       {"TRIREME_SERVICE", "digits"},
                       {"TRIREME_PORT", port.text()},
                       {"TRIREME_SECRET", kSecret}};
  };
  EXPECT_EQ(parameters(start_all(command, {place(0), place(1)})[0]), own_parameters());
}

TEST_F(Launchers, AProgramOfOnesOwnTakesItsPlaceUnderMpirun) {
  Environment place = for_mpi();
  const Outcome outcome = Program(folder_, mpirun(2, {std::string(TRIREME_BINARY_DIR) + "/all_reduce"}), place).wait();
  EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  expect_no_meeting_files();
}

TEST_F(Launchers, AProgramOnItsOwnSaysWhyItCannotServeItsMetrics) {
  const Words program{std::string(TRIREME_BINARY_DIR) + "/all_reduce"};
  const Outcome refused = Program(folder_, program, {{"TRIREME_METRICS", "10.0.0.1:9100"}}).wait();
  EXPECT_NE(refused.status, 0);
  EXPECT_THAT(refused.err, HasSubstr("TRIREME_METRICS: "));
  const Outcome served = Program(folder_, program, {{"TRIREME_METRICS", "0"}}).wait();  // at any port
  EXPECT_EQ(served.status, 0) << served.err;
}

TEST_F(Launchers, AProgramWithATrainerHasItsServersInside) {
  const std::string program = std::string(TRIREME_BINARY_DIR) + "/fashion_mnist";
  const Outcome own = run_trireme(folder_, {"run", "-w", "2", "-s", "1", "--steps", "20", "--threads", "1", "--json",
                                            "--", program, images_.string()});
  const std::string wanted = parameters(own);
  Environment place = for_mpi();
  place["TRIREME_TRAIN_OPTIONS"] = R"({"steps": 20, "threads": 1})";
  const TempFolder folder;
  const Outcome outcome = Program(folder, mpirun(2, {program, images_.string()}), place).wait();
  ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  const auto run = std::filesystem::directory_iterator(folder / "runs")->path();
  EXPECT_EQ(nlohmann::json::parse(read_file(run / "result.json")).value("parameters_sha256", ""), wanted);
}

TEST_F(Launchers, AnotherNumberOfWorkersIsRefused) {
  const Outcome outcome = Program(folder_, train({"--workers", "3"}), torchrun(0, 2)).wait();
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, HasSubstr("--workers 3: torchrun started 2 processes"));
}

TEST_F(Launchers, EnvSaysWhoStartedItAndWhyNotTheOthers) {
  Environment place = torchrun(1, 2);
  place["SLURM_JOB_ID"] = "7";
  place["XDG_RUNTIME_DIR"] = folder_.path().string();
  const Outcome outcome = Program(folder_, trireme({"env"}), place).wait();
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("started by: torchrun"));
  EXPECT_THAT(outcome.out, HasSubstr("worker 1 of 2"));
  EXPECT_THAT(outcome.out, HasSubstr("there is no step"));
}

}  // namespace
}  // namespace trireme::system_test
