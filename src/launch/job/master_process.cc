#include "launch/job/master_process.h"

#include <csignal>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"

namespace trireme::launch {
namespace {

// One is not enough: if this process was suspended, the time for an answer is over before it can be read.
constexpr int kUnansweredWhenHung = 2;

}  // namespace

void MasterProcess::start(Time now) {
  std::filesystem::remove(options_.announce);  // of the one before
  listens_ = false;
  restart_at_.reset();
  listen_by_ = now + options_.listens_within;
  unanswered_ = 0;
  given_up_.clear();
  connection_.reset();
  restarts_.on_start(0, now);
  pid_ = options_.start();
}

void MasterProcess::adopt(const net::Address& address) {
  address_ = address;
  elsewhere_ = true;
}

void MasterProcess::look(Time now) {
  if (restart_at_ && now >= *restart_at_) start(now);
  if (pid_ == 0 || listens_) return;
  if (std::filesystem::exists(options_.announce)) {
    address_ = nlohmann::json::parse(read_file(options_.announce)).get<net::Address>();
    listens_ = true;
  } else if (listen_by_ && now >= *listen_by_) {
    listen_by_.reset();  // once is enough
    give_up(fmt::format("it did not listen within {:.0f} s", seconds(options_.listens_within)));
  }
}

void MasterProcess::note_end() {
  pid_ = 0;
  connection_.reset();
}

RestartDecision MasterProcess::restart(const Exit& exit, Time now) {
  if (!options_.replaceable)
    return {.reason = "it cannot be replaced: its state was lost with it (built without SQLite)"};
  // One that ends by itself before it could be reached has a reason that the next one would have too.
  if (!known() && exit.signal == 0) return {.reason = "it ended before it could be reached"};
  RestartDecision decision = restarts_.on_end(0, now);
  if (!given_up_.empty()) decision.reason = fmt::format("{}; {}", given_up_, decision.reason);
  if (decision.again) restart_at_ = decision.at;
  return decision;
}

cluster::JobStatus MasterProcess::status() {
  try {
    if (!connection_) connect();
    auto status = connection_->call<cluster::JobStatus>(cluster::kStatus, 0, cluster::Done{},
                                                        Deadline::in(options_.answers_within), "its status");
    unanswered_ = 0;
    return status;
  } catch (const Timeout&) {
    connection_.reset();
    if (++unanswered_ == kUnansweredWhenHung) {
      give_up(fmt::format("it hung: {} questions in a row were not answered within {:.1f} s", unanswered_,
                          seconds(options_.answers_within)));
    }
    throw;
  } catch (const Error&) {
    connection_.reset();
    throw;
  }
}

void MasterProcess::ask_to_stop(const std::string& reason) {
  if (!connection_) connect();
  connection_->call<cluster::Done>(cluster::kStop, 0, cluster::StopRequest{reason}, Deadline::in(5s),
                                   "the request to stop");
}

void MasterProcess::scale(const cluster::ScaleRequest& request) {
  if (!connection_) connect();
  connection_->call<cluster::Done>(cluster::kScale, 0, request, Deadline::in(5s), "the number of processes");
}

void MasterProcess::connect() {
  if (!listening()) fail<PeerLost>("the master does not listen yet");
  connection_ = net::Connection::open(
      loop_, address_,
      {.secret = options_.secret,
       .transport = net::is_loopback(address_.host) ? net::Transport::kTcp : net::Transport::kAuto,
       .role = "master",
       .peer_name = "the master",
       .deadline = Deadline::in(options_.answers_within),
       .limits = {},
       .await_listener = false});
}

/// Kills it, so that a successor can lead; without one, a master that is only slow is better than none.
void MasterProcess::give_up(const std::string& reason) {
  if (pid_ == 0 || !options_.replaceable) return;
  log_warn("master_given_up", "killed the master", {{"pid", pid_}, {"reason", reason}});
  given_up_ = reason;
  ::kill(-pid_, SIGKILL);
}

}  // namespace trireme::launch
