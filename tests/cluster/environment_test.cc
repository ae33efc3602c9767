#include "cluster/environment.h"

#include <map>
#include <string>

#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/support/expect_fails.h"
#include "tests/support/temp_folder.h"

namespace trireme::cluster {
namespace {

using Variables = std::map<std::string, std::string>;

constexpr const char* kSecret = "0123456789abcdef0123456789abcdef";

Lookup lookup_in(const Variables& variables) {
  return [&variables](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
}

JobEnvironment read(const Variables& variables) {
  const auto place = read_environment(lookup_in(variables));
  if (!place) throw std::logic_error("nothing was found");
  return *place;
}

/// A worker's variables as `trireme run` sets them, with `changes` made; an empty value takes the variable away.
Variables own(const Variables& changes = {}) {
  Variables variables{{"TRIREME_ROLE", "worker"},
                      {"TRIREME_RANK", "1"},
                      {"TRIREME_WORKERS", "4"},
                      {"TRIREME_SERVERS", "2"},
                      {"TRIREME_MASTER", "127.0.0.1:4820"},
                      {"TRIREME_SECRET", kSecret}};
  for (const auto& [name, value] : changes) variables[name] = value;
  return variables;
}

/// TF_CONFIG for a task of a cluster with a chief, two workers and two parameter servers.
Variables tf(const std::string& type, int index) {
  return {{"TRIREME_SECRET", kSecret},
          {"TF_CONFIG",
           R"({"cluster": {"chief": ["a:1"], "worker": ["b:2", "c:3"], "ps": ["d:4", "e:5"]}, "task": {"type": ")" +
               type + R"(", "index": )" + std::to_string(index) + "}}"}};
}

Variables tf_text(const std::string& text) { return {{"TRIREME_SECRET", kSecret}, {"TF_CONFIG", text}}; }

TEST(Environment, WithoutVariablesAProcessIsAlone) {
  EXPECT_FALSE(read_environment(lookup_in({})));
  EXPECT_FALSE(read_environment(lookup_in({{"TRIREME_SECRET", kSecret}, {"TRIREME_ROLE", ""}, {"TF_CONFIG", ""}})));
}

TEST(Environment, ReadsOurOwnVariables) {
  const auto place =
      read(own({{"TRIREME_TRANSPORT", "tcp"}, {"TRIREME_RUN_DIR", "runs/one"}, {"TRIREME_LISTEN", "10.0.0.7:99"}}));
  EXPECT_EQ(place.role, Role::kWorker);
  EXPECT_EQ(place.rank, 1u);
  EXPECT_EQ(place.workers, 4u);
  EXPECT_EQ(place.servers, 2u);
  EXPECT_EQ(place.master.text(), "127.0.0.1:4820");
  EXPECT_EQ(place.listen.text(), "10.0.0.7:99");
  EXPECT_EQ(place.transport, net::Transport::kTcp);
  EXPECT_EQ(place.run_folder, "runs/one");
  EXPECT_EQ(place.secret, kSecret);
  EXPECT_FALSE(place.hosts_master);
}

TEST(Environment, NamesTheBackendOfTheCollectives) {
  EXPECT_EQ(read(own({{"TRIREME_BACKEND", "mpi"}})).backend, "mpi");
  EXPECT_EQ(read(own({{"TRIREME_BACKEND", "native"}})).backend, "");
  EXPECT_EQ(read(own()).backend, "");
  EXPECT_FAILS(read(own({{"TRIREME_BACKEND", "nmpi"}})), InvalidArgument, "TRIREME_BACKEND='nmpi'", "mpi");
}

TEST(Environment, SaysWhereAProcessServesItsMetrics) {
  EXPECT_EQ(read(own({{"TRIREME_METRICS", "9100"}})).metrics, "9100");
  EXPECT_EQ(read(own()).metrics, "");
  EXPECT_FAILS(read(own({{"TRIREME_METRICS", "0.0.0.0:1"}})), InvalidArgument, "TRIREME_METRICS", "this machine only");
}

TEST(Environment, ReadsAServersPlace) {
  const auto place = read(own({{"TRIREME_ROLE", "server"}}));
  EXPECT_EQ(place.role, Role::kServer);
  EXPECT_EQ(place.transport, net::Transport::kAuto);
}

TEST(Environment, StoreReplacesTheMasterAddress) {
  const auto place = read(own({{"TRIREME_MASTER", ""}, {"TRIREME_STORE", "etcd://a:1,b:1/job"}}));
  EXPECT_EQ(place.store, "etcd://a:1,b:1/job");
  EXPECT_EQ(place.master.port, 0);
}

TEST(Environment, NamesTheVariableThatIsWrong) {
  EXPECT_FAILS(read(own({{"TRIREME_ROLE", "wroker"}})), InvalidArgument, "TRIREME_ROLE='wroker'", "worker");
  EXPECT_FAILS(read(own({{"TRIREME_RANK", "one"}})), InvalidArgument, "TRIREME_RANK='one'", "number");
  EXPECT_FAILS(read(own({{"TRIREME_RANK", "-1"}})), InvalidArgument, "TRIREME_RANK='-1'");
  EXPECT_FAILS(read(own({{"TRIREME_WORKERS", "4x"}})), InvalidArgument, "TRIREME_WORKERS='4x'");
  EXPECT_FAILS(read(own({{"TRIREME_SERVERS", "99999999999"}})), InvalidArgument, "TRIREME_SERVERS");
  EXPECT_FAILS(read(own({{"TRIREME_MASTER", ""}})), InvalidArgument, "TRIREME_MASTER", "host:port", "TRIREME_STORE");
  EXPECT_FAILS(read(own({{"TRIREME_MASTER", "nowhere"}})), InvalidArgument, "nowhere");
  EXPECT_FAILS(read(own({{"TRIREME_TRANSPORT", "tpc"}})), InvalidArgument, "tpc");
}

TEST(Environment, RankMustBeBelowTheCountOfItsRole) {
  EXPECT_FAILS(read(own({{"TRIREME_RANK", "4"}})), InvalidArgument, "worker 4 is invalid", "the job has 4");
  EXPECT_FAILS(read(own({{"TRIREME_ROLE", "server"}, {"TRIREME_RANK", "2"}})), InvalidArgument, "server 2 is invalid");
}

TEST(Environment, TheChiefIsWorkerZeroAndHostsTheMaster) {
  const auto chief = read(tf("chief", 0));
  EXPECT_EQ(chief.role, Role::kWorker);
  EXPECT_EQ(chief.rank, 0u);
  EXPECT_EQ(chief.workers, 3u);
  EXPECT_EQ(chief.servers, 2u);
  EXPECT_EQ(chief.master.text(), "a:1");
  EXPECT_TRUE(chief.hosts_master);
}

TEST(Environment, WorkersOfTfConfigCountAfterTheChief) {
  const auto worker = read(tf("worker", 1));
  EXPECT_EQ(worker.rank, 2u);
  EXPECT_EQ(worker.master.text(), "a:1");
  EXPECT_FALSE(worker.hosts_master);
}

TEST(Environment, ServersOfTfConfigListenWhereItSays) {
  const auto server = read(tf("ps", 1));
  EXPECT_EQ(server.role, Role::kServer);
  EXPECT_EQ(server.rank, 1u);
  EXPECT_EQ(server.listen.text(), "e:5");
  EXPECT_FALSE(server.hosts_master);
}

TEST(Environment, WorkersOfTfConfigListenForEachOtherWhereItSays) {
  EXPECT_EQ(read(tf("worker", 1)).listen.text(), "c:3");
  EXPECT_EQ(read(tf("chief", 0)).listen.text(), "a:0") << "its port is the master's";
}

TEST(Environment, AJobCanDoWithoutServers) {
  EXPECT_EQ(read(own({{"TRIREME_SERVERS", "0"}})).servers, 0u);
  EXPECT_EQ(read(tf_text(R"({"cluster": {"worker": ["b:2"]}, "task": {"type": "worker", "index": 0}})")).servers, 0u);
}

TEST(Environment, WithoutAChiefTheFirstWorkerHostsTheMaster) {
  const auto text = [](int index) {
    return tf_text(R"({"cluster": {"worker": ["b:2", "c:3"], "ps": ["d:4"]}, "task": {"type": "worker", "index": )" +
                   std::to_string(index) + "}}");
  };
  EXPECT_TRUE(read(text(0)).hosts_master);
  EXPECT_FALSE(read(text(1)).hosts_master);
  EXPECT_EQ(read(text(1)).master.text(), "b:2");
  EXPECT_EQ(read(text(1)).workers, 2u);
}

TEST(Environment, MasterIsAnotherWordForChief) {
  const auto place =
      read(tf_text(R"({"cluster": {"master": ["a:1"], "worker": ["b:2"]}, "task": {"type": "master", "index": 0}})"));
  EXPECT_EQ(place.rank, 0u);
  EXPECT_EQ(place.workers, 2u);
  EXPECT_TRUE(place.hosts_master);
}

TEST(Environment, SaysWhatIsWrongWithTfConfig) {
  const auto refuse = [](const std::string& text, const std::string& expected) {
    EXPECT_FAILS(read(tf_text(text)), InvalidArgument, "TF_CONFIG", expected);
  };
  refuse("{", "expected");
  refuse("[]", "expected");
  refuse(R"({"cluster": {"worker": ["b:2"]}})", "task");
  refuse(R"({"cluster": {"worker": "b:2"}, "task": {"type": "worker", "index": 0}})", "expected");
  refuse(R"({"cluster": {"worker": ["b:2"]}, "task": {"type": "worker", "index": "zero"}})", "expected");
  refuse(R"({"cluster": {"worker": ["b:2"]}, "task": {"type": "worker", "index": -1}})", "task index -1");
  refuse(R"({"cluster": {"worker": ["b:2"]}, "task": {"type": "worker", "index": 0.5}})", "task index 0.5");
  refuse(R"({"cluster": {"worker": ["b:2"]}, "task": {"type": "worker", "index": 4294967296}})",
         "task index 4294967296");
  refuse(R"({"cluster": {"wokers": ["b:2"]}, "task": {"type": "worker", "index": 0}})", "unknown job 'wokers'");
  refuse(R"({"cluster": {"ps": ["b:2"]}, "task": {"type": "ps", "index": 0}})", "neither chief nor workers");
  refuse(R"({"cluster": {"chief": ["a:1", "b:2"]}, "task": {"type": "chief", "index": 0}})", "one chief, not 2");
  refuse(R"({"cluster": {"worker": ["b:2"]}, "task": {"type": "chief", "index": 0}})", "does not have");
  refuse(R"({"cluster": {"worker": ["b:2"]}, "task": {"type": "evaluator", "index": 0}})", "task type 'evaluator'");
}

TEST(Environment, ATaskBeyondTheClusterIsRefused) {
  EXPECT_FAILS(read(tf("worker", 2)), InvalidArgument, "TF_CONFIG", "the task is worker 2", "has 2 of that type");
  EXPECT_FAILS(read(tf("ps", 2)), InvalidArgument, "the task is ps 2", "has 2 of that type");
  EXPECT_FAILS(read(tf("chief", 1)), InvalidArgument, "the task is chief 1", "has 1 of that type");
  const std::string largest =
      R"({"cluster": {"chief": ["a:1"], "worker": ["b:2"]}, "task": {"type": "worker", "index": 4294967295}})";
  EXPECT_FAILS(read(tf_text(largest)), InvalidArgument, "the task is worker 4294967295");
}

TEST(Environment, OurOwnVariablesOverrideTfConfig) {
  Variables variables = own();
  variables["TF_CONFIG"] = "{";
  EXPECT_EQ(read(variables).rank, 1u);
}

TEST(Environment, AJobWithoutSecretIsRefused) {
  EXPECT_FAILS(read(own({{"TRIREME_SECRET", ""}})), InvalidArgument, "TRIREME_SECRET", "TRIREME_SECRET_FILE");
}

TEST(Environment, AShortSecretIsRefusedWhereverItStands) {
  EXPECT_FAILS(read(own({{"TRIREME_SECRET", "0123456789abcde"}})), InvalidArgument, "TRIREME_SECRET",
               "15 of at least 16 characters", "openssl rand");
  EXPECT_EQ(read(own({{"TRIREME_SECRET", "0123456789abcdef"}})).secret, "0123456789abcdef");
}

TEST(Environment, ReadsTheSecretFromAFile) {
  const TempFolder folder;
  const auto file = folder.write("secret", std::string(kSecret) + "\n");
  EXPECT_EQ(read(own({{"TRIREME_SECRET", ""}, {"TRIREME_SECRET_FILE", file.string()}})).secret, kSecret);
  const auto shorter = folder.write("short", "1234\n");
  EXPECT_FAILS(read(own({{"TRIREME_SECRET", ""}, {"TRIREME_SECRET_FILE", shorter.string()}})), InvalidArgument, "short",
               "at least 16");
  EXPECT_FAILS(read(own({{"TRIREME_SECRET", ""}, {"TRIREME_SECRET_FILE", (folder / "none").string()}})),
               InvalidArgument, "none", "--secret-file");
}

}  // namespace
}  // namespace trireme::cluster
