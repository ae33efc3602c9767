#include "cli/model/confinement.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <vector>

#include "base/error.h"

namespace trireme::cli {
namespace {

constexpr rlim_t kOpenFiles = 64;

/// What a reader of files has no use for: programs and processes, the network, other processes, namespaces, and ways
/// around this filter. `kill` too: what it would signal are other processes; abort() and threads use tgkill.
constexpr std::array kForbidden = {
    SYS_execve,
    SYS_execveat,
    SYS_socket,
    SYS_socketpair,
    SYS_connect,
    SYS_bind,
    SYS_ptrace,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_kill,
    SYS_tkill,
    SYS_mount,
    SYS_umount2,
    SYS_unshare,
    SYS_setns,
    SYS_chroot,
    SYS_pivot_root,
    SYS_bpf,
    SYS_userfaultfd,
    SYS_perf_event_open,
    SYS_io_setup,
    SYS_add_key,
    SYS_request_key,
    SYS_keyctl,
    SYS_open_by_handle_at,
#ifdef SYS_fork
    SYS_fork,
    SYS_vfork,
#endif
#ifdef SYS_io_uring_setup
    SYS_io_uring_setup,
#endif
#ifdef SYS_pidfd_send_signal
    SYS_pidfd_send_signal,
#endif
#ifdef SYS_pidfd_getfd
    SYS_pidfd_getfd,
#endif
};

#if defined(__x86_64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#else
constexpr std::uint32_t kArchitecture = 0;  // not known: no filter
#endif

constexpr std::uint32_t kOtherNumbers = 0x40000000;  // x32: the same calls under other numbers

std::uint32_t refuse_with(int error) {
  return SECCOMP_RET_ERRNO | (static_cast<std::uint32_t>(error) & SECCOMP_RET_DATA);
}

/// A program of the kernel's packet filter that looks at one system call (seccomp(2)).
std::vector<sock_filter> make_filter() {
  std::vector<sock_filter> filter;
  const auto load = [&](std::size_t offset) {
    filter.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<std::uint32_t>(offset)));
  };
  const auto answer = [&](std::uint32_t verdict) { filter.push_back(BPF_STMT(BPF_RET | BPF_K, verdict)); };
  const auto answer_if = [&](std::uint16_t comparison, std::uint32_t value, std::uint32_t verdict) {
    filter.push_back(BPF_JUMP(BPF_JMP | comparison | BPF_K, value, 0, 1));
    answer(verdict);
  };
  const auto answer_unless = [&](std::uint16_t comparison, std::uint32_t value, std::uint32_t verdict) {
    filter.push_back(BPF_JUMP(BPF_JMP | comparison | BPF_K, value, 1, 0));
    answer(verdict);
  };
  load(offsetof(seccomp_data, arch));
  answer_unless(BPF_JEQ, kArchitecture, SECCOMP_RET_KILL_PROCESS);
  load(offsetof(seccomp_data, nr));
  answer_if(BPF_JGE, kOtherNumbers, refuse_with(EPERM));
  for (const long number : kForbidden) answer_if(BPF_JEQ, static_cast<std::uint32_t>(number), refuse_with(EPERM));
  // Its flags are in memory, where no filter can look: the C library makes threads with `clone` instead.
  answer_if(BPF_JEQ, static_cast<std::uint32_t>(SYS_clone3), refuse_with(ENOSYS));
  answer_unless(BPF_JEQ, static_cast<std::uint32_t>(SYS_clone), SECCOMP_RET_ALLOW);
  load(offsetof(seccomp_data, args[0]));
  answer_unless(BPF_JSET, CLONE_THREAD, refuse_with(EPERM));  // threads, but no processes
  answer(SECCOMP_RET_ALLOW);
  return filter;
}

void limit(__rlimit_resource_t resource, rlim_t value, const char* what) {
  rlimit now{};
  ::getrlimit(resource, &now);
  // Of the processor's time, SIGXCPU tells at the first limit; at the second it would be SIGKILL.
  const rlimit wanted{.rlim_cur = std::min(value, now.rlim_max),
                      .rlim_max = std::min(value + (resource == RLIMIT_CPU ? 5 : 0), now.rlim_max)};
  if (::setrlimit(resource, &wanted) != 0) {
    fail_errno(fmt::format("cannot limit {} of this process", what));
  }
}

std::uint64_t mapped_bytes() {
  std::uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace

bool confine_this_process(const Confinement& confinement) {
  std::signal(SIGXFSZ, SIG_IGN);  // a file that grows too large is an error of the write
  limit(RLIMIT_AS, mapped_bytes() + confinement.memory_bytes, "the memory");
  limit(RLIMIT_FSIZE, confinement.file_bytes, "the files");
  limit(RLIMIT_CPU, static_cast<rlim_t>(confinement.cpu.count()), "the time");
  limit(RLIMIT_NOFILE, kOpenFiles, "the open files");
  limit(RLIMIT_CORE, 0, "the core file");
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) fail_errno("cannot give up the gain of privileges");
  if (kArchitecture == 0) return false;
  std::vector<sock_filter> filter = make_filter();
  const sock_fprog program{.len = static_cast<unsigned short>(filter.size()), .filter = filter.data()};
  // All threads at once: the libraries of LibTorch have started some before main.
  const long failed = ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);
  if (failed == 0) return true;
  if (failed < 0 && (errno == ENOSYS || errno == EINVAL)) return false;
  fail<IoError>("cannot confine this process: {}", failed > 0 ? "one of its threads resists" : std::strerror(errno));
}

}  // namespace trireme::cli
