#include "tests/system/program.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/random.h"

extern char** environ;

namespace trireme::system_test {
namespace {

/// The content, or nothing if there is none to read: files of /proc vanish at any time.
std::string content_of(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

std::vector<std::string> merged_environment(const Program::Environment& env) {
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view variable(*entry);
    const bool measured = variable.starts_with("XDG_CACHE_HOME=");  // what is known of this machine
    if (!measured && !variable.starts_with("TRIREME_") && !variable.starts_with("TF_CONFIG=")) {
      all.emplace_back(variable);
    }
  }
  if (!env.contains("XDG_CACHE_HOME")) all.emplace_back("XDG_CACHE_HOME=/nonexistent");
  for (const auto& [name, value] : env) all.push_back(name + "=" + value);
  return all;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (std::string& text : texts) all.push_back(text.data());
  all.push_back(nullptr);
  return all;
}

pid_t spawn_in(const std::filesystem::path& folder, const std::filesystem::path& stem, std::vector<std::string> argv,
               std::vector<std::string> env) {
  constexpr int kWrite = O_WRONLY | O_CREAT | O_TRUNC;
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&actions, 1, (stem.string() + ".out").c_str(), kWrite, 0600);
  ::posix_spawn_file_actions_addopen(&actions, 2, (stem.string() + ".err").c_str(), kWrite, 0600);
  ::posix_spawn_file_actions_addchdir_np(&actions, folder.c_str());
  posix_spawnattr_t attributes;  // a test that runs in the background ignores SIGINT; the program shall not
  ::posix_spawnattr_init(&attributes);
  sigset_t defaults;
  ::sigfillset(&defaults);
  ::posix_spawnattr_setsigdefault(&attributes, &defaults);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  pid_t pid = -1;
  const int problem =
      ::posix_spawn(&pid, argv.front().c_str(), &actions, &attributes, pointers(argv).data(), pointers(env).data());
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  if (problem != 0) fail<IoError>("cannot start {}: {}", argv.front(), std::generic_category().message(problem));
  return pid;
}

int shell_status(int status) { return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status); }

}  // namespace

nlohmann::json Outcome::json() const {
  const std::size_t end = out.find_last_not_of('\n');
  if (end == std::string::npos) return nullptr;
  const std::size_t before = out.rfind('\n', end);
  const std::size_t begin = before == std::string::npos ? 0 : before + 1;
  return nlohmann::json::parse(out.substr(begin, end + 1 - begin), nullptr, /*allow_exceptions=*/false);
}

Program::Program(const TempFolder& folder, std::vector<std::string> argv, const Environment& env)
    : stem_(folder / ("program-" + random_hex(4))) {
  pid_ = spawn_in(folder.path(), stem_, std::move(argv), merged_environment(env));
}

Program::~Program() {
  if (status_) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

std::string Program::out() const { return content_of(stem_.string() + ".out"); }

std::string Program::err() const { return content_of(stem_.string() + ".err"); }

void Program::send(int signal) const { ::kill(pid_, signal); }

Outcome Program::wait(std::chrono::milliseconds time) {
  int status = 0;
  const bool ended = eventually([&] { return ::waitpid(pid_, &status, WNOHANG) == pid_; }, time);
  if (!ended) {
    ADD_FAILURE() << "the program did not end; it said:\n" << out() << err();
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, &status, 0);
  }
  status_ = shell_status(status);
  return {.status = *status_, .out = out(), .err = err()};
}

std::vector<std::string> trireme(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), TRIREME_BINARY_DIR "/trireme");
  return arguments;
}

Outcome run_trireme(const TempFolder& folder, std::vector<std::string> arguments, const Program::Environment& env,
                    std::chrono::milliseconds time) {
  return Program(folder, trireme(std::move(arguments)), env).wait(time);
}

std::string last_line(const std::string& text, const std::string& words) {
  std::istringstream lines(text);
  std::string found;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(words)) found = line;
  }
  return found;
}

std::vector<pid_t> descendants(pid_t pid) {
  std::vector<pid_t> all;
  std::error_code gone;
  const std::filesystem::path tasks = "/proc/" + std::to_string(pid) + "/task";
  for (const auto& task : std::filesystem::directory_iterator(tasks, gone)) {
    std::istringstream children(content_of(task.path() / "children"));
    for (pid_t child = 0; children >> child;) {
      all.push_back(child);
      const auto below = descendants(child);
      all.insert(all.end(), below.begin(), below.end());
    }
  }
  return all;
}

std::string words_of(pid_t pid) { return content_of("/proc/" + std::to_string(pid) + "/cmdline"); }

pid_t wait_for_member(pid_t launcher, const std::string& role, int rank, const std::filesystem::path& run,
                      const std::optional<WantedEvent>& event) {
  pid_t found = 0;
  const auto log_file = run / "logs" / (role + "-" + std::to_string(rank) + ".log");
  const bool there = eventually([&] {
    if (event && !has_event(content_of(log_file), *event)) return false;
    for (const pid_t pid : descendants(launcher)) {
      const std::string environment = '\0' + content_of("/proc/" + std::to_string(pid) + "/environ");
      const auto has = [&](const std::string& variable) {
        return environment.find('\0' + variable + '\0') != std::string::npos;
      };
      if (has("TRIREME_ROLE=" + role) && has("TRIREME_RANK=" + std::to_string(rank))) found = pid;
    }
    return found != 0;
  });
  return there ? found : 0;
}

bool is_gone(pid_t pid) {
  const std::string stat = content_of("/proc/" + std::to_string(pid) + "/stat");
  const std::size_t name_end = stat.rfind(')');  // "pid (name) state ..."
  return name_end == std::string::npos || stat.at(name_end + 2) == 'Z';
}

std::filesystem::path make_images(const TempFolder& folder, std::uint32_t train, std::uint32_t test) {
  constexpr std::uint32_t kSide = 28;
  const auto number = [](std::string& to, std::uint32_t value) {  // big-endian, as IDX wants it
    for (int shift = 24; shift >= 0; shift -= 8) to.push_back(static_cast<char>(value >> shift & 0xff));
  };
  const auto write = [&](const std::string& name, std::uint32_t count, std::uint64_t seed) {
    std::string images;
    std::string labels;
    for (const std::uint32_t value : {0x803u, count, kSide, kSide}) number(images, value);
    for (const std::uint32_t value : {0x801u, count}) number(labels, value);
    RandomStream random(seed);
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::uint64_t label = random.below(10);
      labels.push_back(static_cast<char>(label));
      for (std::uint32_t pixel = 0; pixel < kSide * kSide; ++pixel) {
        const bool bar = pixel / kSide / 2 == 2 + label;  // two rows for each class
        images.push_back(static_cast<char>((bar ? 128 : 0) + random.below(128)));
      }
    }
    folder.write("images/" + name + "-images-idx3-ubyte", images);
    folder.write("images/" + name + "-labels-idx1-ubyte", labels);
  };
  std::filesystem::create_directories(folder / "images");
  write("train", train, 1);
  write("t10k", test, 2);
  return folder / "images";
}

}  // namespace trireme::system_test
