#include "launch/job/running_job.h"

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
  connect(nlohmann::json::parse(read_file(announce)).get<net::Address>(), secret);
}

RunningJob::RunningJob(const net::Address& master, const std::string& secret) { connect(master, secret); }

void RunningJob::connect(const net::Address& master, const std::string& secret) {
  master_ = net::Connection::open(
      loop_, master,
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

void RunningJob::checkpoint(const std::string& reason) {
  master_->call<cluster::Done>(cluster::kCheckpoint, 0, cluster::CheckpointNow{reason}, Deadline::in(kAnswerTime),
                               "the request for a checkpoint");
}

std::uint64_t RunningJob::record(Step steps) {
  return master_
      ->call<cluster::RecordReply>(cluster::kRecord, 0, cluster::RecordRequest{steps}, Deadline::in(kAnswerTime),
                                   "the request for a timeline")
      .request;
}

cluster::CollectedSpans RunningJob::recorded(std::uint64_t request) {
  return cluster::collect_spans(request, [this](const cluster::RecordedQuery& query) {
    return master_->call<cluster::RecordedReply>(cluster::kRecorded, 0, query, Deadline::in(kAnswerTime), "a timeline");
  });
}

}  // namespace trireme::launch
