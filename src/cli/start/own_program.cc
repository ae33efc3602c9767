#include "cli/start/own_program.h"

#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include <fmt/ranges.h>

#include "base/error.h"
#include "base/file.h"
#include "observe/run_folder.h"

namespace trireme::cli {
namespace {

std::string program_in(const std::filesystem::path& file) {
  try {
    return nlohmann::json::parse(read_file(file)).at("program");
  } catch (const nlohmann::json::exception& problem) {
    fail<Corrupt>("{} does not name a program: {}", file.string(), problem.what());
  }
}

/// A program of one's own finds the command beside it or in PATH, where this one need not be.
void offer_this_command() {
  const char* const search = std::getenv("PATH");
  const std::string folder = std::filesystem::read_symlink("/proc/self/exe").parent_path().string();
  ::setenv("PATH", fmt::format("{}{}{}", search == nullptr ? "" : search, search == nullptr ? "" : ":", folder).c_str(),
           1);
}

}  // namespace

Action hand_over(const std::filesystem::path& run, const WorkerProgram& self, const std::vector<std::string>& words) {
  const auto folder = observe::RunFolder::open(run);
  if (!self.path.empty() || !std::filesystem::exists(folder.trainer())) return nullptr;
  const std::string program = program_in(folder.trainer());
  if (::access(program.c_str(), X_OK) != 0) {
    fail<InvalidArgument>(
        "{} was trained by {}, which is not there any more: build it again, or start it from where it is now: "
        "./{} {}",
        run.string(), program, std::filesystem::path(program).filename().string(),
        fmt::join(words.begin(), words.end(), " "));
  }
  std::vector<std::string> argv{program};
  argv.insert(argv.end(), words.begin(), words.end());
  return [argv]() -> int {
    offer_this_command();
    become(argv);
  };
}

void become(const std::vector<std::string>& words) {
  std::signal(SIGPIPE, SIG_DFL);  // as every program expects it
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  ::execv(argv.front(), argv.data());
  fail<IoError>("cannot start {}: {}", words.front(), std::strerror(errno));
}

}  // namespace trireme::cli
