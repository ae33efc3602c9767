#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "base/error.h"
#include "base/file.h"
#include "base/random.h"
#include "cli/commands/commands.h"
#include "cli/flags/numbers.h"
#include "cli/flags/train_words.h"
#include "launch/k8s/manifest.h"
#include "launch/k8s/yaml.h"
#include "launch/private_file.h"

namespace trireme::cli {
namespace {

constexpr std::size_t kSecretBytes = 32;

struct K8sFlags {
  launch::ManifestOptions manifest;
  std::uint32_t servers = 0;
  bool servers_given = false;
  Words train;
  std::string out;
  bool json = false;
};

/// What the manifests say, or a pod cannot have.
void check_not_given(const Words& words) {
  for (const std::string& word : words) {
    const std::string name = word.substr(0, word.find('='));
    for (const char* ours : {"--workers", "-w", "--servers", "-s", "--out", "--dash", "--overwrite"}) {
      if (name == ours)
        fail<InvalidArgument>("{} after --: the manifests set it; give --workers and --servers before --", name);
    }
    for (const char* other : {"--hosts", "--hostfile", "--discover", "--backend"}) {
      if (name == other) fail<InvalidArgument>("{} after --: Kubernetes starts the processes", name);
    }
  }
}

/// Each worker writes its part of a checkpoint into the run folder, which the pods have to share then.
void check_volume(const launch::ManifestOptions& manifest, const TrainFlags& train) {
  if (!manifest.claim.empty() || manifest.pods == 1 || parse_checkpoint_every(train.checkpoint_every) == 0) return;
  fail<InvalidArgument>(
      "{} pods without --volume share no run folder for their checkpoints: name a PersistentVolumeClaim that all can "
      "write to (ReadWriteMany), or do without: -- --checkpoint-every 0",
      manifest.pods);
}

/// The flags of `trireme train` in each pod, once it would take them.
Words checked_train_flags(const K8sFlags& flags) {
  check_not_given(flags.train);
  Words words = flags.train;
  if (flags.servers_given) words.insert(words.end(), {"--servers", std::to_string(flags.servers)});
  Words all = words;
  all.insert(all.end(), {"--workers", std::to_string(flags.manifest.pods)});
  check_volume(flags.manifest, read_train_words(all));
  return words;
}

std::string file_name(const nlohmann::ordered_json& document) {
  std::string kind = document.at("kind");
  std::ranges::transform(kind, kind.begin(), [](unsigned char c) { return std::tolower(c); });
  return kind + ".yaml";
}

int write_manifests(const K8sFlags& flags, const std::vector<nlohmann::ordered_json>& documents) {
  if (flags.out.empty()) {
    if (flags.json) {
      const nlohmann::ordered_json list{{"apiVersion", "v1"}, {"kind", "List"}, {"items", documents}};
      fmt::print("{}\n", list.dump());
      return 0;
    }
    for (const auto& document : documents) fmt::print("---\n{}", launch::to_yaml(document));
    return 0;
  }
  std::filesystem::create_directories(flags.out);
  for (const auto& document : documents) {
    const std::filesystem::path file = std::filesystem::path(flags.out) / file_name(document);
    if (document.at("kind") == "Secret") {
      launch::write_private_file(file, launch::to_yaml(document));
    } else {
      write_file_atomically(file, as_bytes(launch::to_yaml(document)));
    }
    fmt::print("{}\n", file.string());
  }
  fmt::print("to start the job: kubectl apply -f {}\n", flags.out);
  return 0;
}

int k8s(K8sFlags flags) {
  launch::make_manifests(flags.manifest);  // are the names sound?
  flags.manifest.train_flags = checked_train_flags(flags);
  if (flags.manifest.secret_name.empty()) flags.manifest.secret = random_hex(kSecretBytes);
  return write_manifests(flags, launch::make_manifests(flags.manifest));
}

}  // namespace

void add_k8s(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("k8s", "write the manifests of a training for Kubernetes");
  auto flags = std::make_shared<K8sFlags>();
  launch::ManifestOptions& manifest = flags->manifest;
  command->add_option("--name", manifest.name, "of the job, its Service, Secret and run")->required();
  command->add_option("--image", manifest.image, "with trireme in its PATH, and the data; see docs/Containerfile")
      ->required();
  add_number(*command, "-w,--workers", manifest.pods, "pods, a worker in each", {.least = 1, .most = 100000})
      ->capture_default_str();
  auto* servers =
      add_number(*command, "-s,--servers", flags->servers,
                 "parameter servers, in the first pods; 1 unless given; none with allreduce, zero and local-sgd");
  command->add_option("--namespace", manifest.space, "where it runs; unless given, where the manifests are applied");
  command->add_option("--secret-name", manifest.secret_name,
                      "a Secret that is there, with the job's secret as its key 'secret'; unless given, one is made");
  command->add_flag("--jobset", manifest.jobset,
                    "a JobSet, which restarts all pods together, instead of an Indexed Job");
  command->add_option("--cpu", manifest.cpu, "cores of each pod")->capture_default_str();
  command->add_option("--memory", manifest.memory, "of each pod")->capture_default_str();
  add_number(*command, "--gpus", manifest.gpus, "of each pod; with --device cuda after --", {.most = 64});
  command->add_option(
      "--volume", manifest.claim,
      "a PersistentVolumeClaim for the run folder, which all pods can write to (ReadWriteMany); only one pod, "
      "or --checkpoint-every 0, can do without");
  add_number(*command, "--retries", manifest.retries,
             "pods that may fail before the job has; of a JobSet, its restarts", {.most = 1000000})
      ->capture_default_str();
  add_number(*command, "--grace", manifest.grace_s, "seconds to save a checkpoint when a pod is deleted",
             {.least = 15, .most = 86400})
      ->capture_default_str();
  command->add_option("--out", flags->out, "a folder for the files; unless given, all are printed");
  command->add_flag("--json", flags->json, "print them as one line of JSON, a List")->excludes("--out");
  command->add_option("flags", flags->train, "flags of 'trireme train', after --");
  command->positionals_at_end();
  command->footer(
      "Each pod runs 'trireme train' with the flags after --, or 'trireme resume' where its run is there already.\n"
      "Example: trireme k8s --name digits --image registry.example/trireme:0.2 --workers 4 --volume runs -- --epochs 5 "
      "| kubectl "
      "apply -f -");
  command->callback([flags, servers, &action] {
    flags->servers_given = servers->count() > 0;
    action = [flags] { return k8s(*flags); };
  });
}

}  // namespace trireme::cli
