#include "launch/k8s/manifest.h"

#include <regex>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "tests/support/expect_fails.h"

namespace trireme::launch {
namespace {

using Json = nlohmann::ordered_json;

/// What is wrong with `value` by the rule `rule` (a name in `schema`, or a rule itself); empty if nothing is. The rules
/// are those of JSON Schema that tests/launch/k8s/schema.json uses, and no other field may be there.
std::string problem_with(const Json& value, const Json& rule, const Json& schema, const std::string& where) {
  if (rule.is_string()) return problem_with(value, schema.at(rule.get<std::string>()), schema, where);
  if (rule.contains("enum") && std::ranges::find(rule["enum"], value) == rule["enum"].end()) {
    return where + " is " + value.dump();
  }
  const std::string type = rule.value("type", "");
  const bool fits = type.empty() || (type == "string" && value.is_string()) ||
                    (type == "object" && value.is_object()) || (type == "array" && value.is_array()) ||
                    (type == "boolean" && value.is_boolean()) || (type == "integer" && value.is_number_integer());
  if (!fits) return where + " is no " + type;
  if (rule.contains("pattern") &&
      !std::regex_search(value.get<std::string>(), std::regex(rule["pattern"].get<std::string>()))) {
    return where + " does not match: " + value.dump();
  }
  if (rule.contains("minimum") && value < rule["minimum"]) return where + " is too small";
  if (rule.contains("maximum") && value > rule["maximum"]) return where + " is too large";
  for (const Json& name : rule.value("required", Json::array())) {
    if (!value.contains(name)) return where + " has no " + name.get<std::string>();
  }
  if (value.is_array() && rule.contains("items")) {
    for (std::size_t i = 0; i < value.size(); ++i) {
      if (auto text = problem_with(value[i], rule["items"], schema, fmt::format("{}[{}]", where, i)); !text.empty())
        return text;
    }
  }
  if (!value.is_object()) return "";
  for (const auto& [name, inside] : value.items()) {
    const bool known = rule.contains("properties") && rule["properties"].contains(name);
    if (!known && !rule.contains("values")) return where + " has an unknown field " + name;
    const Json& inner = known ? rule["properties"][name] : rule["values"];
    if (auto text = problem_with(inside, inner, schema, where + "." + name); !text.empty()) return text;
  }
  return "";
}

std::string problem_with(const Json& document) {
  static const Json schema = Json::parse(read_file(std::string(TRIREME_SOURCE_DIR) + "/tests/launch/k8s/schema.json"));
  const std::string kind = document.value("kind", "");
  if (!schema["kinds"].contains(kind)) return "kind is " + kind;
  return problem_with(document, schema["kinds"][kind], schema, kind);
}

ManifestOptions options() {
  return {.name = "digits",
          .image = "registry.example/trireme:0.2",
          .pods = 4,
          .train_flags = {"--epochs", "2"},
          .secret = "0123"};
}

/// The document of this kind; null if there is none.
Json find(const std::vector<Json>& all, const std::string& kind) {
  for (const Json& document : all) {
    if (document.at("kind") == kind) return document;
  }
  return nullptr;
}

Json pod_of(const Json& job) { return job["spec"]["template"]["spec"]; }

TEST(Manifest, FitsThePublishedSchemas) {
  for (const bool jobset : {false, true}) {
    for (const std::string claim : {"", "runs.claim"}) {
      for (const std::string secret : {"", "mine"}) {
        ManifestOptions wanted = options();
        wanted.jobset = jobset;
        wanted.claim = claim;
        wanted.secret_name = secret;
        wanted.gpus = jobset ? 2 : 0;
        wanted.space = claim.empty() ? "" : "research";
        for (const Json& document : make_manifests(wanted)) EXPECT_EQ(problem_with(document), "") << document.dump(1);
      }
    }
  }
}

TEST(Manifest, SchemaFindsWhatIsWrong) {
  Json job = find(make_manifests(options()), "Job");
  job["spec"]["template"]["spec"]["restartPolcy"] = "Never";
  EXPECT_EQ(problem_with(job), "Job.spec.template.spec has an unknown field restartPolcy");
  job = find(make_manifests(options()), "Job");
  job["spec"]["completions"] = "4";
  EXPECT_EQ(problem_with(job), "Job.spec.completions is no integer");
  job = find(make_manifests(options()), "Job");
  job["spec"]["template"]["spec"]["containers"][0].erase("image");
  EXPECT_EQ(problem_with(job), "Job.spec.template.spec.containers[0] has no image");
}

TEST(Manifest, PodsFindEachOtherThroughTheServiceBeforeTheyAreReady) {
  const auto all = make_manifests(options());
  const Json service = find(all, "Service");
  const Json job = find(all, "Job");
  EXPECT_EQ(service["spec"]["clusterIP"], "None");
  EXPECT_EQ(service["spec"]["publishNotReadyAddresses"], true);
  EXPECT_EQ(service["metadata"]["name"], pod_of(job)["subdomain"]);
  EXPECT_EQ(service["spec"]["selector"], job["spec"]["template"]["metadata"]["labels"]);
  EXPECT_EQ(job["spec"]["completionMode"], "Indexed");
  EXPECT_EQ(job["spec"]["completions"], 4);
  EXPECT_EQ(job["spec"]["parallelism"], 4);
}

TEST(Manifest, RetriesAreOfTheWholeJobWhoseRestartsCountForEachPod) {
  ManifestOptions wanted = options();
  wanted.retries = 6;
  EXPECT_EQ(find(make_manifests(wanted), "Job")["spec"]["backoffLimit"], 24);
  wanted.jobset = true;
  const Json set = find(make_manifests(wanted), "JobSet");
  EXPECT_EQ(set["spec"]["failurePolicy"]["maxRestarts"], 6);
  EXPECT_EQ(set["spec"]["replicatedJobs"][0]["template"]["spec"]["backoffLimit"], 0);
}

TEST(Manifest, PodsHaveNoRightsThatTheyDoNotNeed) {
  const Json pod = pod_of(find(make_manifests(options()), "Job"));
  const Json container = pod["containers"][0]["securityContext"];
  EXPECT_EQ(pod["securityContext"]["runAsNonRoot"], true);
  EXPECT_EQ(pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
  EXPECT_EQ(pod["automountServiceAccountToken"], false);
  EXPECT_EQ(container["readOnlyRootFilesystem"], true);
  EXPECT_EQ(container["allowPrivilegeEscalation"], false);
  EXPECT_EQ(container["capabilities"]["drop"], Json::array({"ALL"}));
}

TEST(Manifest, FlagsReachThePodAsTheyAre) {
  ManifestOptions wanted = options();
  wanted.train_flags = {"--target", "$(id)", "$$", "$HOME", "a b"};
  const Json args = pod_of(find(make_manifests(wanted), "Job"))["containers"][0]["args"];
  EXPECT_EQ(args, Json::array({"--target", "$$(id)", "$$$", "$HOME", "a b"}));
}

TEST(Manifest, OwnSecretIsUsedAndNoneIsWritten) {
  ManifestOptions wanted = options();
  EXPECT_EQ(find(make_manifests(wanted), "Secret")["stringData"]["secret"], "0123");
  wanted.secret_name = "mine";
  const auto all = make_manifests(wanted);
  EXPECT_EQ(find(all, "Secret"), nullptr);
  EXPECT_EQ(pod_of(find(all, "Job"))["volumes"][2]["secret"]["secretName"], "mine");
}

TEST(Manifest, DisruptionsTakeOnePodAtATime) {
  const auto all = make_manifests(options());
  EXPECT_EQ(find(all, "PodDisruptionBudget")["spec"]["minAvailable"], 3);
}

TEST(Manifest, JobSetMakesItsOwnService) {
  ManifestOptions wanted = options();
  wanted.jobset = true;
  const auto all = make_manifests(wanted);
  EXPECT_EQ(find(all, "Service"), nullptr);
  EXPECT_EQ(find(all, "JobSet")["spec"]["network"]["subdomain"], "digits");
}

TEST(Manifest, RefusesNamesThatAreNone) {
  const auto with = [](auto set) {
    ManifestOptions wanted = options();
    set(wanted);
    return make_manifests(wanted);
  };
  for (const char* name :
       {"", "Digits", "4digits", "-digits", "digits-", "di_gits", "di.gits", "a: b", "x\ny", "$(id)", "'"}) {
    EXPECT_FAILS(with([&](ManifestOptions& o) { o.name = name; }), InvalidArgument, "--name", "RFC 1123");
  }
  EXPECT_FAILS(with([](ManifestOptions& o) { o.name = std::string(62, 'a'); }), InvalidArgument, "at most 61");
  EXPECT_FAILS(with([](ManifestOptions& o) { o.jobset = true, o.name = std::string(60, 'a'); }), InvalidArgument,
               "at most 51");
  EXPECT_FAILS(with([](ManifestOptions& o) { o.space = "A"; }), InvalidArgument, "--namespace 'A'");
  EXPECT_FAILS(with([](ManifestOptions& o) { o.secret_name = "a/b"; }), InvalidArgument, "--secret-name");
  EXPECT_FAILS(with([](ManifestOptions& o) { o.claim = "../x"; }), InvalidArgument, "--volume");
  EXPECT_FAILS(with([](ManifestOptions& o) { o.image = "a b"; }), InvalidArgument, "--image 'a b'");
  EXPECT_FAILS(with([](ManifestOptions& o) { o.image = ""; }), InvalidArgument, "--image");
  EXPECT_FAILS(with([](ManifestOptions& o) { o.cpu = "two"; }), InvalidArgument, "--cpu", "500m");
  EXPECT_FAILS(with([](ManifestOptions& o) { o.memory = "4"; }), InvalidArgument, "--memory", "4Gi");
  EXPECT_FAILS(with([](ManifestOptions& o) { o.pods = 0; }), InvalidArgument, "--workers 0");
}

}  // namespace
}  // namespace trireme::launch
