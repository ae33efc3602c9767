#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "trireme/deadline.h"

#include "tests/support/events.h"
#include "tests/support/eventually.h"
#include "tests/support/temp_folder.h"

namespace trireme::system_test {

/// How a program ended and what it said.
struct Outcome {
  int status = -1;  ///< as a shell says it: the exit status, or 128 + signal
  std::string out;  ///< standard output
  std::string err;  ///< standard error

  /// The last line of standard output as JSON.
  nlohmann::json json() const;
};

/// A program that runs in `folder`. Killed if it still runs at the end of the test.
class Program {
 public:
  using Environment = std::map<std::string, std::string>;

  /// Variables of `env` are added to ours; TRIREME_*, TF_CONFIG and XDG_CACHE_HOME of ours are not passed on.
  Program(const TempFolder& folder, std::vector<std::string> argv, const Environment& env = {});
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  pid_t pid() const { return pid_; }
  std::string out() const;  ///< so far
  std::string err() const;

  void send(int signal) const;

  /// Waits for its end; a test failure, and SIGKILL, at the deadline.
  Outcome wait(std::chrono::milliseconds time = 60s);

 private:
  std::filesystem::path stem_;
  pid_t pid_ = -1;
  std::optional<int> status_;
};

/// The `trireme` that was built, with these arguments.
std::vector<std::string> trireme(std::vector<std::string> arguments);

/// Runs `trireme` to its end; a test failure if that takes longer than `time`.
Outcome run_trireme(const TempFolder& folder, std::vector<std::string> arguments, const Program::Environment& env = {},
                    std::chrono::milliseconds time = 60s);

/// The last line of `text` that begins with `words`; empty if there is none.
std::string last_line(const std::string& text, const std::string& words);

/// Children, their children and so on, of a process that runs.
std::vector<pid_t> descendants(pid_t pid);

/// The command line of a process, each word ended by a 0; empty if it is gone: it may be at any time.
std::string words_of(pid_t pid);

/// The descendant of `launcher` with that role and rank, once it is there and has logged `event` in run folder `run`;
/// 0 if that did not happen in time.
pid_t wait_for_member(pid_t launcher, const std::string& role, int rank, const std::filesystem::path& run,
                      const std::optional<WantedEvent>& event);

/// Not running any more, reaped or not.
bool is_gone(pid_t pid);

/// A folder in the layout of Fashion-MNIST with `train` and `test` images of ten classes, each its own bright bar
/// under noise, so that runs take a second. Returns its path in `folder`.
std::filesystem::path make_images(const TempFolder& folder, std::uint32_t train = 640, std::uint32_t test = 100);

}  // namespace trireme::system_test
