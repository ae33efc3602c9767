#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace trireme::launch {

/// A job as Kubernetes is to run it: a pod for each worker, the servers and the master in the first ones.
struct ManifestOptions {
  std::string name = {};  ///< of everything
  std::string image = {};
  std::string space = {};                     ///< namespace; empty = the one that is applied to
  std::uint32_t pods = 2;                     ///< one worker each
  std::vector<std::string> train_flags = {};  ///< of `trireme train`
  std::string secret_name = {};               ///< a Secret that is there, with a key `secret`; empty = one of our own
  std::string secret = {};                    ///< what that one holds
  bool jobset = false;                        ///< a JobSet instead of a Job and a Service
  std::string cpu = "1";                      ///< of each pod, as Kubernetes writes it
  std::string memory = "2Gi";
  std::uint32_t gpus = 0;
  std::string claim = {};          ///< PersistentVolumeClaim of the runs; empty = an emptyDir, gone with the pod
  std::uint32_t retries = 6;       ///< how often all pods may be started again before the job has failed
  std::uint32_t grace_s = 60;      ///< to save a checkpoint after SIGTERM
  std::uint16_t port = 4820;       ///< of the master
  std::uint16_t page_port = 8471;  ///< of the page, on loopback
};

/// Returns the manifests, in the order in which they are to be applied: Secret, Service, Job (or JobSet),
/// PodDisruptionBudget. Pure. Throws InvalidArgument that names the flag for a name that is no RFC 1123 label, or too
/// long for the names of the pods, and for an image or a quantity that cannot be one.
std::vector<nlohmann::ordered_json> make_manifests(const ManifestOptions& options);

}  // namespace trireme::launch
