#include "cluster/link_probe.h"

#include "base/error.h"
#include "base/log.h"
#include "net/connect.h"

namespace trireme::cluster {

void LinkProbe::set_targets(std::vector<MemberInfo> targets) {
  const MutexLock lock(mutex_);
  targets_ = std::move(targets);
  if (targets_.empty()) return;
  changed_.notify_all();
  if (thread_.joinable()) return;
  thread_ = std::jthread([this](const std::stop_token& stop) {
    net::name_thread("link-probe");
    run(stop);
  });
}

std::vector<MemberId> LinkProbe::take_reached() {
  const MutexLock lock(mutex_);
  std::vector<MemberId> reached(reached_.begin(), reached_.end());
  reached_.clear();
  return reached;
}

void LinkProbe::run(const std::stop_token& stop) {
  do {
    std::vector<MemberInfo> targets;
    {
      const MutexLock lock(mutex_);
      if (!changed_.wait(mutex_, stop, [&]() TRIREME_REQUIRES(mutex_) { return !targets_.empty(); })) return;
      targets = targets_;
    }
    for (const MemberInfo& member : targets) {
      if (stop.stop_requested()) return;
      if (!answers(member)) continue;
      const MutexLock lock(mutex_);
      reached_.insert(member.id);
    }
  } while (!sleep_for(stop, options_.every));
}

bool LinkProbe::answers(const MemberInfo& member) const {
  try {
    net::connect(loop_, member.address,
                 {.secret = options_.secret,
                  .transport = net::network_transport(options_.transport, member.address),
                  .peer_name = fmt::format("member {}", member.id),
                  .deadline = Deadline::in(options_.within),
                  .await_listener = false});
    return true;
  } catch (const Error& problem) {
    log_debug("member_unreachable", "a member still does not answer",
              {{"member", member.id}, {"address", member.address.text()}, {"reason", problem.what()}});
    return false;
  }
}

}  // namespace trireme::cluster
