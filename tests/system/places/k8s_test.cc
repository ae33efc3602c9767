// `trireme k8s`: pods that are started as its manifests say find their places, train, and answer their probes.

#include <signal.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "tests/support/reserved_port.h"
#include "tests/system/program.h"

namespace trireme::system_test {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using Words = std::vector<std::string>;
using Environment = Program::Environment;

class K8s : public ::testing::Test {
 protected:
  nlohmann::json manifests(const Words& flags) {
    Words words{"k8s", "--name", "digits", "--image", "trireme:0.2", "--workers", "2", "--volume", "runs", "--json"};
    words.insert(words.end(), flags.begin(), flags.end());
    const Outcome outcome = run_trireme(folder_, words);
    EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
    nlohmann::json by_kind;
    const nlohmann::json list = outcome.json();
    for (const auto& document : list.at("items")) by_kind[document.at("kind").get<std::string>()] = document;
    return by_kind;
  }

  /// What Kubernetes gives to the pod of this index: the manifest's variables, and those that it sets by itself. The
  /// secret and the run are in the test's folder, the ports are free ones.
  Environment environment(const nlohmann::json& container, int index) {
    Environment variables{{"JOB_COMPLETION_INDEX", std::to_string(index)},
                          {"HOSTNAME", "digits-" + std::to_string(index)},
                          {"PATH", std::string(TRIREME_BINARY_DIR) + ":/usr/bin:/bin"}};
    for (const auto& variable : container.at("env")) variables[variable.at("name")] = variable.at("value");
    variables["TRIREME_SECRET_FILE"] = (folder_ / "secret").string();
    variables["RUN"] = (folder_ / "run").string();
    variables["TRIREME_PORT"] = port_;
    variables["PAGE_PORT"] = page_port_;
    return variables;
  }

  /// Kubernetes takes "$$(" for "$(".
  static std::string as_kubernetes_reads(std::string word) {
    for (std::size_t at = word.find("$$("); at != std::string::npos; at = word.find("$$(", at + 1)) word.erase(at, 1);
    return word;
  }

  void write_secret(const nlohmann::json& by_kind) {
    write_file_atomically(folder_ / "secret", as_bytes(by_kind["Secret"]["stringData"]["secret"].get<std::string>()));
  }

  TempFolder folder_;
  const ReservedPort reserved_;
  const ReservedPort reserved_for_page_;
  const std::string port_ = reserved_.text();
  const std::string page_port_ = reserved_for_page_.text();
};

TEST_F(K8s, EachPodResolvesToItsPlace) {
  auto all = manifests({"--servers", "1"});
  write_secret(all);
  const auto& container = all["Job"]["spec"]["template"]["spec"]["containers"][0];
  for (const int index : {0, 1}) {
    const Outcome place = run_trireme(folder_, {"env"}, environment(container, index));
    EXPECT_EQ(place.status, 0) << place.err;
    EXPECT_THAT(place.out, HasSubstr("started by: Indexed Job"));
    EXPECT_THAT(place.out, HasSubstr("worker " + std::to_string(index) + " of 2"));
    EXPECT_THAT(place.out, HasSubstr("digits-0.digits:" + port_ + (index == 0 ? ": here" : ": elsewhere")));
  }
  Environment more = environment(container, 1);
  more["JOB_COMPLETION_INDEX"] = "2";
  more["HOSTNAME"] = "digits-2";
  const Outcome refused = run_trireme(folder_, {"env"}, more);
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.err, HasSubstr("JOB_COMPLETION_INDEX=2"));
}

TEST_F(K8s, PodOfAJobSetResolvesToItsPlace) {
  auto all = manifests({"--jobset"});
  write_secret(all);
  const auto& job = all["JobSet"]["spec"]["replicatedJobs"][0]["template"]["spec"];
  Environment variables = environment(job["template"]["spec"]["containers"][0], 1);
  variables["HOSTNAME"] = "digits-workers-0-1";
  const Outcome place = run_trireme(folder_, {"env"}, variables);
  EXPECT_EQ(place.status, 0) << place.err;
  EXPECT_THAT(place.out, HasSubstr("worker 1 of 2"));
  EXPECT_THAT(place.out, HasSubstr("digits-workers-0-0.digits:" + port_));
}

TEST_F(K8s, PodsTrainAnswerTheirProbesAndGoOnAfterAStop) {
  if (Program(folder_, {"/usr/bin/unshare", "-m", "true"}).wait().status != 0) {
    GTEST_SKIP() << "mount namespaces are not permitted here";
  }
  write_file_atomically(folder_ / "hosts",
                        as_bytes(std::string("127.0.0.1 localhost digits-0.digits digits-1.digits\n")));
  const std::string images = make_images(folder_).string();
  // Long enough to be stopped halfway, however long the probes take.
  const Words flags{"--data-dir", images,    "--model", "mlp",       "--strategy", "allreduce", "--steps",
                    "300",        "--batch", "32",      "--threads", "1",          "--step-ms", "40"};
  Words after{"--"};
  after.insert(after.end(), flags.begin(), flags.end());
  auto all = manifests(after);
  write_secret(all);
  const auto container = all["Job"]["spec"]["template"]["spec"]["containers"][0];
  const auto in_pod = [&](const nlohmann::json& command) {
    Words words{"/usr/bin/unshare", "-m", "sh", "-c", "mount --bind hosts /etc/hosts && exec \"$@\"", "sh"};
    for (const auto& word : command) words.push_back(as_kubernetes_reads(word));
    return words;
  };
  Words start = in_pod(container["command"]);
  for (const auto& word : container["args"]) start.push_back(word);
  const auto probe = [&](const char* name, int index) {
    return Program(folder_, in_pod(container[name]["exec"]["command"]), environment(container, index)).wait().status;
  };
  EXPECT_NE(probe("readinessProbe", 0), 0) << "nobody is there yet";
  {
    Program first(folder_, start, environment(container, 0));
    Program second(folder_, start, environment(container, 1));
    EXPECT_TRUE(eventually([&] { return probe("readinessProbe", 0) == 0; }));
    EXPECT_EQ(probe("livenessProbe", 0), 0);
    EXPECT_EQ(probe("livenessProbe", 1), 0);
    first.send(SIGTERM);
    EXPECT_EQ(first.wait().status, 75) << first.out() << first.err();
    EXPECT_EQ(second.wait().status, 75) << second.out() << second.err();
  }
  {  // a person stops it: it stays so until it is started anew
    Program first(folder_, start, environment(container, 0));
    Program second(folder_, start, environment(container, 1));
    EXPECT_TRUE(eventually([&] { return probe("readinessProbe", 0) == 0; }));
    EXPECT_EQ(run_trireme(folder_, {"stop", (folder_ / "run").string()}).status, 0);
    EXPECT_EQ(first.wait().status, 0) << first.out() << first.err();
    EXPECT_EQ(second.wait().status, 0) << second.out() << second.err();
  }
  Program first(folder_, start, environment(container, 0));
  Program second(folder_, start, environment(container, 1));
  EXPECT_EQ(first.wait().status, 0) << first.out() << first.err();
  EXPECT_EQ(second.wait().status, 0) << second.out() << second.err();
  const auto result = nlohmann::json::parse(read_file(folder_ / "run" / "result.json"));
  EXPECT_EQ(result["steps"], 300);
  Words alone{"train", "--workers", "2", "--json", "--out", (folder_ / "alone").string()};
  alone.insert(alone.end(), flags.begin(), flags.end() - 2);  // without --step-ms
  EXPECT_EQ(run_trireme(folder_, alone).json()["parameters_sha256"], result["parameters_sha256"]);
}

TEST_F(K8s, WrongInputIsRefused) {
  const auto refused = [&](const Words& flags, const std::string& why) {
    Words words{"k8s"};
    words.insert(words.end(), flags.begin(), flags.end());
    const Outcome outcome = run_trireme(folder_, words);
    EXPECT_EQ(outcome.status, 2) << outcome.out;
    EXPECT_THAT(outcome.err, HasSubstr(why));
    EXPECT_EQ(outcome.out, "");
  };
  refused({"--name", "a"}, "--image");
  refused({"--name", "A_b", "--image", "i"}, "RFC 1123");
  refused({"--name", "a", "--image", "i", "--workers", "0"}, "--workers");
  refused({"--name", "a", "--image", "i", "--", "--modle", "mlp"}, "did you mean '--model'");
  refused({"--name", "a", "--image", "i", "--", "--workers", "3"}, "the manifests set it");
  refused({"--name", "a", "--image", "i", "--", "--hosts", "b"}, "Kubernetes starts the processes");
  refused({"--name", "a", "--image", "i", "--servers", "1", "--", "--strategy", "allreduce"}, "--servers 1");
  refused({"--name", "a", "--image", "i"}, "2 pods without --volume");
}

TEST_F(K8s, FilesOfAFolderKeepTheSecretPrivate) {
  const Outcome outcome = run_trireme(folder_, {"k8s", "--name", "digits", "--image", "trireme:0.2", "--volume", "runs",
                                                "--out", (folder_ / "manifests").string()});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("kubectl apply -f"));
  const auto secret = folder_ / "manifests" / "secret.yaml";
  EXPECT_EQ(std::filesystem::status(secret).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  EXPECT_THAT(read_file(folder_ / "manifests" / "job.yaml"), StartsWith("apiVersion: batch/v1\nkind: Job\n"));
  for (const char* file : {"service.yaml", "poddisruptionbudget.yaml"}) {
    EXPECT_TRUE(std::filesystem::exists(folder_ / "manifests" / file)) << file;
  }
}

}  // namespace
}  // namespace trireme::system_test
