#include "launch/exit.h"

#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

namespace trireme::launch {
namespace {

constexpr int kShellSignalBase = 128;

bool is_stop_signal(int signal) { return signal == SIGTERM || signal == SIGKILL; }

std::string signal_text(int signal) {
  const char* abbreviation = ::sigabbrev_np(signal);
  if (abbreviation == nullptr) return fmt::format("signal {}", signal);  // real-time signals have no name
  return fmt::format("SIG{} ({})", abbreviation, ::sigdescr_np(signal));
}

std::string death_text(WaitStatus status, bool by_us) {
  std::string text = fmt::format("died of {}", signal_text(status.value));
  if (status.code == CLD_DUMPED) text += ", core dumped";
  if (by_us) {
    text += ", as asked";
  } else if (status.value == SIGKILL) {
    text += "; if nobody sent that, the machine was out of memory: see `dmesg`";
  }
  return text;
}

}  // namespace

Exit describe_exit(std::string name, pid_t pid, WaitStatus status, bool told_to_stop) {
  Exit exit{.name = std::move(name), .pid = pid};
  if (status.code == CLD_EXITED) {
    exit.status = status.value;
    exit.by_us = told_to_stop && (status.value == 0 || is_stop_signal(status.value - kShellSignalBase));
    exit.how = fmt::format("exited with status {}{}", status.value, exit.by_us ? ", as asked" : "");
  } else {
    exit.status = kShellSignalBase + status.value;
    exit.signal = status.value;
    exit.by_us = told_to_stop && is_stop_signal(status.value);
    exit.how = death_text(status, exit.by_us);
  }
  return exit;
}

int worst_status(std::span<const Exit> exits) {
  std::pair<bool, int> worst{false, 0};  // (died of a signal, status)
  for (const Exit& exit : exits) {
    if (!exit.by_us) worst = std::max(worst, {exit.signal != 0, exit.status});
  }
  return worst.second;
}

}  // namespace trireme::launch
