#include "chaos/fault_injector.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"
#include "chaos/connections.h"

namespace trireme::chaos {
namespace {

// A slow process runs for 10 ms of every 100.
constexpr auto kRun = 10ms;
constexpr auto kPause = 90ms;

FileDescriptor open_process(pid_t pid) { return FileDescriptor(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0U))); }

/// Returns false if the process has ended.
bool send(const FileDescriptor& process, int signal) {
  return process && ::syscall(SYS_pidfd_send_signal, process.get(), signal, nullptr, 0U) == 0;
}

}  // namespace

FaultInjector::FaultInjector(const FaultInjectorOptions& options) : options_(options) {
  if (!options.disk.empty()) disk_.emplace(options.disk);
}

FaultInjector::~FaultInjector() {
  for (const Lasting& lasting : lasting_) send(lasting.process, SIGCONT);
}

std::string FaultInjector::inject(FaultKind kind, pid_t pid) {
  const auto last = [&](FileDescriptor process) {
    lasting_.push_back({.kind = kind, .process = std::move(process), .until = Deadline::in(options_.stop_for)});
  };
  const double time = seconds(options_.stop_for);
  if (kind == FaultKind::kDiskFull) {
    if (!disk_) fail<IoError>("there is no disk that could fill up");
    disk_->make_full();
    last({});
    return fmt::format("the disk of the checkpoints was full for {:.1f} s", time);
  }
  FileDescriptor process = open_process(pid);
  if (!process) return "it had just ended by itself";
  switch (kind) {
    case FaultKind::kKill:
      send(process, SIGKILL);
      return "SIGKILL";
    case FaultKind::kCut: {
      const std::size_t cut = cut_connections(pid);
      return fmt::format("{} TCP connection{} cut", cut, cut == 1 ? "" : "s");
    }
    case FaultKind::kStop:
      send(process, SIGSTOP);
      last(std::move(process));
      return fmt::format("SIGSTOP for {:.1f} s", time);
    default:
      send(process, SIGSTOP);
      last(std::move(process));
      return fmt::format("a tenth of its time for {:.1f} s", time);
  }
}

void FaultInjector::tick() {
  const auto now = Deadline::Clock::now();
  for (auto lasting = lasting_.begin(); lasting != lasting_.end();) {
    if (lasting->until.passed()) {
      end(*lasting, disk_);
      lasting = lasting_.erase(lasting);
      continue;
    }
    if (lasting->kind == FaultKind::kSlow && now - lasting->since >= (lasting->stopped ? kPause : kRun)) {
      send(lasting->process, lasting->stopped ? SIGCONT : SIGSTOP);
      lasting->stopped = !lasting->stopped;
      lasting->since = now;
    }
    ++lasting;
  }
}

void FaultInjector::end(Lasting& lasting, std::optional<FullDisk>& disk) {
  if (lasting.kind == FaultKind::kDiskFull) {
    disk->make_room();
  } else {
    send(lasting.process, SIGCONT);
  }
}

}  // namespace trireme::chaos
