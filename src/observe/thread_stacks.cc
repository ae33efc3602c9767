#include "observe/thread_stacks.h"

#include <cxxabi.h>
#include <execinfo.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <string_view>
#include <thread>

#include <fmt/format.h>

#include "base/file.h"
#include "base/mutex.h"
#include "observe/elf_symbols.h"

namespace trireme::observe {
namespace {

constexpr const char* kEnd = "== end";
constexpr int kMostFrames = 64;

// What the handlers use. They may run at any moment, so nothing here allocates or locks.
std::array<char, 4096> dump_path{};      // empty: not allowed
std::atomic<int> dump_file{-1};          // of the dump that is being written
std::atomic<std::uint32_t> answered{0};  // threads that have written theirs
std::atomic<bool> dumping{false};

int thread_signal() { return stacks_signal() + 1; }

void put(int file, const char* text) {
  const auto length = std::strlen(text);
  [[maybe_unused]] const ssize_t written = ::write(file, text, length);
}

void put_number(int file, std::int64_t number) {
  std::array<char, 24> digits{};
  std::size_t at = digits.size() - 1;
  do {
    digits[--at] = static_cast<char>('0' + number % 10);
    number /= 10;
  } while (number > 0);
  put(file, &digits[at]);
}

/// In each thread: writes its own stack.
void write_own_stack(int /*signal*/) {
  const int before = errno;
  const int file = dump_file.load();
  if (file >= 0) {
    std::array<char, 16> name{};
    ::prctl(PR_GET_NAME, name.data());
    put(file, "thread ");
    put_number(file, ::syscall(SYS_gettid));
    put(file, " ");
    put(file, name.data());
    put(file, "\n");
    std::array<void*, kMostFrames> frames{};
    const int count = ::backtrace(frames.data(), kMostFrames);
    ::backtrace_symbols_fd(frames.data(), count, file);
    answered.fetch_add(1);
  }
  errno = before;
}

struct DirectoryEntry {  // as getdents64 gives them
  std::uint64_t inode;
  std::int64_t offset;
  unsigned short length;
  unsigned char type;
  char name[256];
};

/// Lets each thread of this process write its stack, one after the other. One that blocks signals is left out.
void ask_each_thread(int tasks) {
  alignas(DirectoryEntry) std::array<char, 4096> block{};
  const auto pid = ::getpid();
  for (;;) {
    const long got = ::syscall(SYS_getdents64, tasks, block.data(), block.size());
    if (got <= 0) return;
    for (long at = 0; at < got;) {
      const auto* entry = reinterpret_cast<const DirectoryEntry*>(block.data() + at);
      at += entry->length;
      if (entry->name[0] == '.') continue;
      const long thread = std::strtol(entry->name, nullptr, 10);
      const std::uint32_t seen = answered.load();
      if (::syscall(SYS_tgkill, pid, thread, thread_signal()) != 0) continue;
      const timespec pause{.tv_sec = 0, .tv_nsec = 200'000};
      for (int i = 0; i < 500 && answered.load() == seen; ++i) ::nanosleep(&pause, nullptr);  // a tenth of a second
    }
  }
}

/// In whichever thread the kernel chose.
void write_all_stacks(int /*signal*/) {
  const int before = errno;
  if (!dumping.exchange(true)) {
    const int file = ::open(dump_path.data(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    const int tasks = ::open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (file >= 0 && tasks >= 0) {
      dump_file.store(file);
      ask_each_thread(tasks);
      dump_file.store(-1);
      put(file, kEnd);
      put(file, "\n");
    }
    if (tasks >= 0) ::close(tasks);
    if (file >= 0) ::close(file);
    dumping.store(false);
  }
  errno = before;
}

void handle(int signal, void (*handler)(int), int allowed_meanwhile) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  ::sigfillset(&action.sa_mask);
  if (allowed_meanwhile != 0) ::sigdelset(&action.sa_mask, allowed_meanwhile);  // its own stack is wanted, too
  ::sigaction(signal, &action, nullptr);
}

std::string state_in_words(char state) {
  switch (state) {
    case 'R':
      return "running";
    case 'S':
      return "sleeping";
    case 'D':
      return "waits for a disk";
    case 'T':
    case 't':
      return "stopped";
    case 'Z':
    case 'X':
      return "dead";
    default:
      return std::string(1, state);
  }
}

/// Returns name and state of a thread: `71 (heartbeat) S …`.
std::pair<std::string, std::string> name_and_state(const std::filesystem::path& stat) {
  std::ifstream in(stat);
  std::string line;
  std::getline(in, line);
  const auto open = line.find('(');
  const auto close = line.rfind(')');
  if (open == line.npos || close == line.npos || close + 2 >= line.size()) return {};
  return {line.substr(open + 1, close - open - 1), state_in_words(line[close + 2])};
}

std::vector<ThreadStack> threads_by_kernel(pid_t pid) {
  std::vector<ThreadStack> threads;
  std::error_code gone;
  for (std::filesystem::directory_iterator task(fmt::format("/proc/{}/task", pid), gone), end; !gone && task != end;
       task.increment(gone)) {
    auto [name, state] = name_and_state(task->path() / "stat");
    threads.push_back({.id = std::atoll(task->path().filename().c_str()), .name = name, .state = state});
  }
  std::ranges::sort(threads, {}, &ThreadStack::id);
  return threads;
}

bool answers_stacks(pid_t pid) {
  std::ifstream status(fmt::format("/proc/{}/status", pid));
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with("SigCgt:")) continue;
    const auto caught = std::strtoull(line.c_str() + 7, nullptr, 16);
    return ((caught >> (stacks_signal() - 1)) & 1) != 0;
  }
  return false;
}

std::string demangled(const std::string& name) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status),
                                                    std::free);
  return status == 0 ? text.get() : name;
}

/// `/path/program(_ZN3fooEv+0x12) [0x7f…]`, `/path/program(+0x3412) [0x…]`.
std::string readable_frame(const std::string& line, std::map<std::string, ElfSymbols>* tables) {
  const auto open = line.find('(');
  const auto close = line.find(')', open);
  if (open == line.npos || close == line.npos) return line;
  const std::string program = line.substr(0, open);
  const std::string inside = line.substr(open + 1, close - open - 1);
  const auto plus = inside.rfind('+');
  const std::string module = std::filesystem::path(program).filename().string();
  if (plus == inside.npos) return module;
  if (plus > 0) return fmt::format("{}  ({})", demangled(inside.substr(0, plus)), module);
  const std::uint64_t offset = std::strtoull(inside.c_str() + 1, nullptr, 16);
  if (tables != nullptr) {
    auto found = tables->find(program);
    if (found == tables->end()) found = tables->emplace(program, ElfSymbols(program)).first;
    if (const std::string name = found->second.name_at(offset); !name.empty()) {
      return fmt::format("{}  ({})", demangled(name), module);
    }
  }
  return fmt::format("{:#x}  ({})", offset, module);
}

/// The first frames are those of the dump itself: a handler, and the frame through which the kernel called it.
void drop_own_frames(std::vector<std::string>& frames) {
  for (const char* handler : {"write_own_stack", "write_all_stacks"}) {
    const auto own =
        std::ranges::find_if(frames, [&](const std::string& frame) { return frame.find(handler) != frame.npos; });
    if (own != frames.end()) frames.erase(frames.begin(), std::min(own + 2, frames.end()));
  }
}

}  // namespace

int stacks_signal() { return SIGRTMIN + 5; }

std::string stacks_file(const std::string& role, std::int64_t pid) {
  std::string name = role;
  std::ranges::replace(name, ' ', '-');
  return fmt::format("{}-{}.txt", name, pid);
}

void allow_stack_dumps(const std::filesystem::path& folder, const std::string& role) {
  const std::string path = (std::filesystem::absolute(folder) / stacks_file(role, ::getpid())).string();
  if (path.size() + 1 > dump_path.size()) return;
  static Mutex one_at_a_time;  // several jobs may be in one process: the last one's folder counts
  const MutexLock lock(one_at_a_time);
  std::memcpy(dump_path.data(), path.c_str(), path.size() + 1);
  std::array<void*, 4> frames{};
  ::backtrace(frames.data(), static_cast<int>(frames.size()));  // loads what it needs now: a handler must not
  handle(stacks_signal(), write_all_stacks, thread_signal());
  handle(thread_signal(), write_own_stack, 0);
}

std::vector<ThreadStack> parse_stacks(const std::string& text, bool symbols) {
  std::vector<ThreadStack> threads;
  std::map<std::string, ElfSymbols> tables;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("thread ")) {
      std::istringstream words(line.substr(7));
      ThreadStack& thread = threads.emplace_back();
      words >> thread.id >> std::ws;
      std::getline(words, thread.name);
    } else if (line != kEnd && !threads.empty()) {
      threads.back().frames.push_back(readable_frame(line, symbols ? &tables : nullptr));
    }
  }
  for (ThreadStack& thread : threads) drop_own_frames(thread.frames);
  return threads;
}

std::vector<ThreadStack> ask_for_stacks(const std::filesystem::path& folder, const std::string& role, pid_t pid,
                                        Deadline deadline) {
  std::vector<ThreadStack> threads = threads_by_kernel(pid);
  if (threads.empty() || !answers_stacks(pid)) return threads;
  const auto path = folder / stacks_file(role, pid);
  std::error_code ignored;
  std::filesystem::create_directories(folder, ignored);
  std::filesystem::remove(path, ignored);
  if (::kill(pid, stacks_signal()) != 0) return threads;
  std::string text;
  while (!deadline.passed()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    if (!std::filesystem::exists(path)) continue;
    text = read_file(path);
    if (text.ends_with(std::string(kEnd) + "\n")) break;
  }
  for (const ThreadStack& answer : parse_stacks(text, /*symbols=*/true)) {
    const auto known = std::ranges::find(threads, answer.id, &ThreadStack::id);
    if (known != threads.end()) known->frames = answer.frames;
  }
  std::filesystem::remove(path, ignored);
  return threads;
}

std::string describe(const std::vector<ThreadStack>& threads) {
  std::string text;
  for (const ThreadStack& thread : threads) {
    text += fmt::format("  thread {} {} ({})\n", thread.id, thread.name, thread.state);
    for (const std::string& frame : thread.frames) text += fmt::format("    {}\n", frame);
  }
  return text;
}

}  // namespace trireme::observe
