#include "trireme/job.h"

#include "base/log.h"
#include "job/job_session.h"

namespace trireme {

std::unique_ptr<Job> Job::join() {
  const auto place = cluster::read_environment();
  if (place) set_up_logging(place->logging());
  return std::make_unique<Job>(std::make_unique<JobSession>(place));
}

Job::Job(std::unique_ptr<JobSession> session) : session_(std::move(session)) {}

Job::~Job() = default;

Rank Job::rank() const { return session_->rank(); }

std::uint32_t Job::workers() const { return session_->workers(); }

View Job::view() const { return session_->view().view; }

bool Job::alone() const { return session_->alone(); }

std::uint32_t Job::slot() const { return session_->slot(); }

collective::Communicator& Job::ranks() { return session_->ranks(); }

std::optional<std::filesystem::path> Job::folder() const {
  const auto& folder = session_->folder();
  return folder ? std::optional(folder->path()) : std::nullopt;
}

bool Job::stop_requested() const { return session_->stop_requested(); }

void Job::leave() { session_->membership().leave(); }

}  // namespace trireme
