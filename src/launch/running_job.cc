#include "launch/running_job.h"

#include "base/error.h"
#include "base/file.h"

namespace trireme::launch {
namespace {

constexpr auto kAnswerTime = 5s;

}  // namespace

RunningJob::RunningJob(const std::filesystem::path& run) {
  const auto announce = run / "master.json";
  const auto secret_file = run / "secret";
  if (!std::filesystem::exists(announce) || !std::filesystem::exists(secret_file)) {
    fail<InvalidArgument>("{} is not the folder of a run that is going on", run.string());
  }
  std::string secret = read_file(secret_file);
  secret.erase(secret.find_last_not_of("\n") + 1);
  master_ = net::Connection::open(
      loop_, nlohmann::json::parse(read_file(announce)).get<net::Address>(),
      {.secret = secret, .role = "master", .peer_name = "the master", .deadline = Deadline::in(kAnswerTime)});
}

cluster::JobStatus RunningJob::status() {
  return master_->call<cluster::JobStatus>(cluster::kStatus, 0, cluster::Done{}, Deadline::in(kAnswerTime),
                                           "its status");
}

void RunningJob::scale(const cluster::ScaleRequest& request) {
  master_->call<cluster::Done>(cluster::kScale, 0, request, Deadline::in(kAnswerTime), "the number of processes");
}

void RunningJob::stop(const std::string& reason) {
  master_->call<cluster::Done>(cluster::kStop, 0, cluster::StopRequest{reason}, Deadline::in(kAnswerTime),
                               "the request to stop");
}

}  // namespace trireme::launch
