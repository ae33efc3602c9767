#include "trireme/job.h"

#include "base/log.h"
#include "cluster/launched_place.h"
#include "cluster/resolvers/variable_reader.h"
#include "job/job_session.h"

namespace trireme {

namespace {

constexpr auto kFirstListensIn = 120s;  // it may read its data first

/// For a program that another launcher started, as one of several: it is a worker, and its servers are inside it.
std::unique_ptr<JobSession> join_launched(const cluster::LauncherPlace& launcher, const cluster::Variables& variables) {
  cluster::StartWish wish = cluster::read_start_wish(variables);
  const cluster::VariableReader read(variables);
  wish.servers = read.number("TRIREME_SERVERS").value_or(wish.servers);
  wish.servers_per_host = read.number("TRIREME_SERVERS_PER_HOST").value_or(0);
  const cluster::LaunchedPlace place = cluster::take_launched_place(launcher, wish, Deadline::in(kFirstListensIn));
  const cluster::JobEnvironment environment = cluster::to_environment(place, variables);
  set_up_logging(environment.logging());
  for (const std::string& reason : place.plan.reasons) {
    log_info("place_taken", "takes its place", {{"launcher", to_string(launcher.launcher)}, {"reason", reason}});
  }
  return std::make_unique<JobSession>(
      environment,
      JobHosting{.on_listening = [&](const net::Address& master,
                                     const std::string& run_folder) { cluster::announce(place, master, run_folder); },
                 .on_begun = [&] { cluster::withdraw(place); }});
}

}  // namespace

std::unique_ptr<Job> Job::join() {
  const cluster::Variables variables = cluster::own_variables();
  const cluster::Resolution resolution = cluster::resolve(variables);
  if (resolution.place) return std::make_unique<Job>(join_launched(*resolution.place, variables));
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
