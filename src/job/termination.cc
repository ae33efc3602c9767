#include "job/termination.h"

#include <atomic>
#include <csignal>

namespace trireme {
namespace {

std::atomic<bool> requested{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler writes it");

}  // namespace

namespace {

void set_handler(struct sigaction* before) {
  struct sigaction current {};
  ::sigaction(SIGTERM, nullptr, &current);
  if (before != nullptr) *before = current;
  if (current.sa_handler == SIG_IGN) return;  // what was ignored at the start stays ignored
  struct sigaction action {};
  action.sa_handler = [](int) { requested.store(true); };
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGTERM, &action, nullptr);
}

}  // namespace

void leave_on_sigterm() { set_handler(nullptr); }

SigtermLeaves::SigtermLeaves() { set_handler(&before_); }

SigtermLeaves::~SigtermLeaves() { ::sigaction(SIGTERM, &before_, nullptr); }

bool termination_requested() { return requested.load(std::memory_order_relaxed); }

}  // namespace trireme
