#include "job/termination.h"

#include <atomic>
#include <csignal>

namespace trireme {
namespace {

std::atomic<bool> requested{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler writes it");

}  // namespace

namespace {

/// Returns what the signal did before.
struct sigaction set_handler(int signal) {
  struct sigaction before {};
  ::sigaction(signal, nullptr, &before);
  if (before.sa_handler == SIG_IGN) return before;                       // what was ignored at the start stays ignored
  if (signal == SIGUSR1 && before.sa_handler != SIG_DFL) return before;  // it means something else to this program
  struct sigaction action {};
  action.sa_handler = [](int) { requested.store(true); };
  action.sa_flags = SA_RESTART;
  ::sigaction(signal, &action, nullptr);
  return before;
}

}  // namespace

void leave_on_sigterm() {
  set_handler(SIGTERM);
  set_handler(SIGUSR1);
}

SigtermLeaves::SigtermLeaves() : before_sigterm_(set_handler(SIGTERM)), before_sigusr1_(set_handler(SIGUSR1)) {}

SigtermLeaves::~SigtermLeaves() {
  ::sigaction(SIGTERM, &before_sigterm_, nullptr);
  ::sigaction(SIGUSR1, &before_sigusr1_, nullptr);
}

bool termination_requested() { return requested.load(std::memory_order_relaxed); }

}  // namespace trireme
