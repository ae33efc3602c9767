#include "launch/k8s/manifest.h"

#include <regex>

#include <fmt/format.h>

#include "base/error.h"

namespace trireme::launch {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kLongestLabel = 63;
constexpr int kUser = 10001;
constexpr const char* kRuns = "/runs";
constexpr const char* kSecretFolder = "/etc/trireme";

/// A run that is there goes on. One whose pods are to go ends with an error in every pod, so that the Job starts all of
/// them again; the chief writes the result before the others end. One that a person stopped ('trireme stop', the page:
/// the master's log says who asked) stays so.
constexpr const char* kScript = R"(export HOSTNAME="${HOSTNAME:-$(hostname)}"
if [ -e "$RUN/config.toml" ]; then
  set -- resume "$RUN"
else
  set -- train "$@" --out "$RUN"
fi
trireme "$@" --dash "127.0.0.1:$PAGE_PORT" &
trap 'kill -TERM $!' TERM
wait $!; status=$?
while kill -0 $! 2>/dev/null; do wait $!; status=$?; done
stopped() { grep -qs '"stopped_because": "asked to stop"' "$RUN/result.json"; }
by_a_person() { grep -s ' event=stop_requested ' "$RUN/logs/master.log" | tail -n 1 | grep -q 'reason="asked by '; }
if stopped && ! by_a_person; then exit 75; fi
exit $status
)";

/// The page is served on loopback, in the first pod; the others have no master to ask.
constexpr const char* kProbe = R"([ "$JOB_COMPLETION_INDEX" != 0 ] && exit 0
exec 3<>"/dev/tcp/127.0.0.1/$PAGE_PORT" || exit 1
printf 'GET %s HTTP/1.1\r\nHost: 127.0.0.1:%s\r\nConnection: close\r\n\r\n' "$1" "$PAGE_PORT" >&3
read -r -t 4 _ status _ <&3 && [ "$status" = 200 ]
)";

/// Where all pods are deleted together, the first one ends the job with a checkpoint before the others leave it.
constexpr const char* kPreStop = R"([ "$JOB_COMPLETION_INDEX" = 0 ] || sleep 10)";

void check_label(const std::string& flag, const std::string& text, std::size_t longest) {
  static const std::regex kLabel("[a-z]([-a-z0-9]*[a-z0-9])?");
  if (!std::regex_match(text, kLabel)) {
    fail<InvalidArgument>(
        "{} '{}': lower-case letters, digits and '-', from a letter to a letter or digit (RFC 1123; a Service's name "
        "begins with a letter)",
        flag, text);
  }
  if (text.size() > longest) {
    fail<InvalidArgument>("{} {}: at most {} characters, so that the names of the pods are no longer than {}", flag,
                          text, longest, kLongestLabel);
  }
}

void check_subdomain(const std::string& flag, const std::string& text) {
  static const std::regex kSubdomain("[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*");
  if (text.size() > 253 || !std::regex_match(text, kSubdomain)) {
    fail<InvalidArgument>("{} '{}': lower-case letters, digits, '-' and '.' (RFC 1123), at most 253 characters", flag,
                          text);
  }
}

void check_matches(const std::string& flag, const std::string& text, const char* expression, const char* example) {
  if (std::regex_match(text, std::regex(expression))) return;
  fail<InvalidArgument>("{} '{}': expected something such as {}", flag, text, example);
}

std::string pods_stem(const ManifestOptions& options) {
  return options.jobset ? options.name + "-workers-0" : options.name;
}

void check(const ManifestOptions& options) {
  const std::size_t longer = pods_stem(options).size() - options.name.size() + fmt::format("-{}", options.pods).size();
  check_label("--name", options.name, kLongestLabel - longer);
  if (!options.space.empty()) check_label("--namespace", options.space, kLongestLabel);
  if (!options.secret_name.empty()) check_subdomain("--secret-name", options.secret_name);
  if (!options.claim.empty()) check_subdomain("--volume", options.claim);
  check_matches("--image", options.image, "[A-Za-z0-9][-A-Za-z0-9._/:@]{0,1023}", "registry.example/trireme:0.2");
  check_matches("--cpu", options.cpu, "[0-9]{1,6}(\\.[0-9]{1,3})?|[0-9]{1,9}m", "2 or 500m");
  check_matches("--memory", options.memory, "[0-9]{1,9}(\\.[0-9]{1,3})?(k|M|G|T|Ki|Mi|Gi|Ti)", "4Gi");
  if (options.pods == 0) fail<InvalidArgument>("--workers 0: at least one worker is needed");
}

Json labels(const ManifestOptions& options) {
  return {{"app.kubernetes.io/name", "trireme"}, {"app.kubernetes.io/instance", options.name}};
}

Json metadata(const ManifestOptions& options) {
  Json meta{{"name", options.name}};
  if (!options.space.empty()) meta["namespace"] = options.space;
  meta["labels"] = labels(options);
  return meta;
}

Json document(const char* api, const char* kind, const ManifestOptions& options) {
  return {{"apiVersion", api}, {"kind", kind}, {"metadata", metadata(options)}};
}

Json secret(const ManifestOptions& options) {
  Json document_of = document("v1", "Secret", options);
  document_of["type"] = "Opaque";
  document_of["immutable"] = true;
  document_of["stringData"] = {{"secret", options.secret}};
  return document_of;
}

/// Gives each pod its name; also before it is ready, since they are ready only once they have found each other.
Json service(const ManifestOptions& options) {
  Json document_of = document("v1", "Service", options);
  document_of["spec"] = {{"clusterIP", "None"},
                         {"publishNotReadyAddresses", true},
                         {"selector", labels(options)},
                         {"ports", Json::array({{{"name", "master"}, {"port", options.port}, {"protocol", "TCP"}}})}};
  return document_of;
}

/// Kubernetes replaces $(NAME) in commands by variables, and $$ by $: a shell has other plans with both.
std::string escaped(const std::string& text) {
  std::string all;
  for (std::size_t i = 0; i < text.size(); ++i) {
    all += text[i];
    if (text[i] == '$' && i + 1 < text.size() && (text[i + 1] == '$' || text[i + 1] == '(')) all += '$';
  }
  return all;
}

Json variable(const char* name, const std::string& value) { return {{"name", name}, {"value", value}}; }

Json probe(const char* path, int period, int failures) {
  return {{"exec", {{"command", {"/bin/bash", "-c", kProbe, "probe", path}}}},
          {"periodSeconds", period},
          {"timeoutSeconds", 5},
          {"failureThreshold", failures}};
}

Json container(const ManifestOptions& options) {
  Json resources{{"requests", {{"cpu", options.cpu}, {"memory", options.memory}}},
                 {"limits", {{"memory", options.memory}}}};
  if (options.gpus > 0) resources["limits"]["nvidia.com/gpu"] = options.gpus;
  Json args = Json::array();
  for (const std::string& word : options.train_flags) args.push_back(escaped(word));
  return {{"name", "trireme"},
          {"image", options.image},
          {"command", {"/bin/sh", "-c", escaped(kScript), "trireme"}},
          {"args", args},
          {"env",
           {variable("TRIREME_PODS", std::to_string(options.pods)), variable("TRIREME_SERVICE", options.name),
            variable("TRIREME_PORT", std::to_string(options.port)),
            variable("TRIREME_SECRET_FILE", fmt::format("{}/secret", kSecretFolder)),
            variable("RUN", fmt::format("{}/{}", kRuns, options.name)),
            variable("PAGE_PORT", std::to_string(options.page_port)), variable("HOME", "/tmp")}},
          {"ports", Json::array({{{"name", "master"}, {"containerPort", options.port}, {"protocol", "TCP"}}})},
          {"startupProbe", probe("/healthz", 5, 60)},
          {"livenessProbe", probe("/healthz", 10, 6)},
          {"readinessProbe", probe("/readyz", 5, 3)},
          {"lifecycle", {{"preStop", {{"exec", {{"command", {"/bin/sh", "-c", kPreStop}}}}}}}},
          {"resources", resources},
          {"securityContext",
           {{"allowPrivilegeEscalation", false},
            {"readOnlyRootFilesystem", true},
            {"runAsNonRoot", true},
            {"capabilities", {{"drop", Json::array({"ALL"})}}}}},
          {"volumeMounts",
           {{{"name", "runs"}, {"mountPath", kRuns}},
            {{"name", "tmp"}, {"mountPath", "/tmp"}},
            {{"name", "secret"}, {"mountPath", kSecretFolder}, {"readOnly", true}}}}};
}

Json pod(const ManifestOptions& options) {
  const std::string secret_name = options.secret_name.empty() ? options.name : options.secret_name;
  const Json runs = options.claim.empty()
                        ? Json{{"name", "runs"}, {"emptyDir", Json::object()}}
                        : Json{{"name", "runs"}, {"persistentVolumeClaim", {{"claimName", options.claim}}}};
  Json spec{{"restartPolicy", options.jobset ? "Never" : "OnFailure"},
            {"terminationGracePeriodSeconds", options.grace_s},
            {"automountServiceAccountToken", false},
            {"enableServiceLinks", false},
            {"securityContext",
             {{"runAsNonRoot", true},
              {"runAsUser", kUser},
              {"runAsGroup", kUser},
              {"fsGroup", kUser},
              {"seccompProfile", {{"type", "RuntimeDefault"}}}}},
            {"containers", Json::array({container(options)})},
            {"volumes",
             {runs,
              {{"name", "tmp"}, {"emptyDir", Json::object()}},
              {{"name", "secret"}, {"secret", {{"secretName", secret_name}, {"defaultMode", 0400}}}}}}};
  if (!options.jobset) spec["subdomain"] = options.name;
  return {{"metadata", {{"labels", labels(options)}}}, {"spec", spec}};
}

Json job_spec(const ManifestOptions& options) {
  return {{"completionMode", "Indexed"},
          {"completions", options.pods},
          {"parallelism", options.pods},
          {"backoffLimit", options.retries * options.pods},  // each restart of a pod counts
          {"template", pod(options)}};
}

Json job(const ManifestOptions& options) {
  Json document_of = document("batch/v1", "Job", options);
  document_of["spec"] = job_spec(options);
  return document_of;
}

Json jobset(const ManifestOptions& options) {
  Json document_of = document("jobset.x-k8s.io/v1alpha2", "JobSet", options);
  document_of["spec"] = {
      {"network", {{"enableDNSHostnames", true}, {"subdomain", options.name}, {"publishNotReadyAddresses", true}}},
      {"failurePolicy", {{"maxRestarts", options.retries}}},
      {"replicatedJobs",
       Json::array({{{"name", "workers"}, {"replicas", 1}, {"template", {{"spec", job_spec(options)}}}}})}};
  document_of["spec"]["replicatedJobs"][0]["template"]["spec"]["backoffLimit"] = 0;  // the set restarts all of them
  return document_of;
}

/// Nodes are drained one pod at a time. A Job cannot be scaled, so only `minAvailable` can be had.
Json disruption_budget(const ManifestOptions& options) {
  Json document_of = document("policy/v1", "PodDisruptionBudget", options);
  document_of["spec"] = {{"minAvailable", options.pods - 1}, {"selector", {{"matchLabels", labels(options)}}}};
  return document_of;
}

}  // namespace

std::vector<Json> make_manifests(const ManifestOptions& options) {
  check(options);
  std::vector<Json> all;
  if (options.secret_name.empty()) all.push_back(secret(options));
  if (!options.jobset) all.push_back(service(options));
  all.push_back(options.jobset ? jobset(options) : job(options));
  all.push_back(disruption_budget(options));
  return all;
}

}  // namespace trireme::launch
