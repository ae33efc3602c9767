#include "observe/run_folder.h"

#include <unistd.h>

#include <array>
#include <system_error>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "base/error.h"
#include "base/file.h"
#include "observe/step_trace.h"

namespace trireme::observe {
namespace {

std::filesystem::path lock_file(const std::filesystem::path& run) { return run / "lock"; }

namespace fs = std::filesystem;

bool plain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';
}

/// Returns `text` as a safe component of a file name.
std::string as_file_name(std::string_view text) {
  std::string name(text.empty() || text.front() == '.' ? "_" : "");
  for (const char c : text) name += plain(c) ? c : '-';
  return name;
}

void check_name(const std::string& name) {
  if (as_file_name(name) == name) return;
  fail<InvalidArgument>("'{}' cannot name a run: use letters, digits, '-', '_' and '.'; to choose a folder, use --out",
                        name);
}

void make_folder(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) fail<IoError>("cannot make folder {}: {}; choose another with --out", path.string(), error.message());
}

/// Creates a folder that did not exist before, even if two runs start in the same second.
fs::path make_unique_folder(const RunFolderOptions& options) {
  make_folder(options.root);
  const std::time_t now = std::chrono::system_clock::to_time_t(options.now);
  const std::string stem = fmt::format("{:%Y%m%d-%H%M%S}-{}", fmt::gmtime(now), as_file_name(options.model));
  for (int number = 1;; ++number) {
    const fs::path path = options.root / (number == 1 ? stem : fmt::format("{}-{}", stem, number));
    std::error_code error;
    if (fs::create_directory(path, error)) return path;
    if (error && error != std::errc::file_exists) {
      fail<IoError>("cannot make folder {}: {}; choose another with --out", path.string(), error.message());
    }
  }
}

/// Adds the files directly in `folder` whose names pass `belongs`; a missing folder has none.
template <typename Belongs>
void collect(const fs::path& folder, std::vector<fs::path>& files, Belongs belongs) {
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    if (belongs(entry->path().filename().string())) files.push_back(entry->path());
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    fail<IoError>("cannot list folder {}: {}; choose another with --out", folder.string(), error.message());
  }
}

/// "pid 4711 on node7, since 2026-03-01T09:15:02Z".
std::string describe_this_process() {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  return fmt::format("pid {} on {}, since {:%Y-%m-%dT%H:%M:%SZ}", ::getpid(), host.data(), fmt::gmtime(now));
}

}  // namespace

bool RunFolder::held() const { return LockFile::is_held(lock_file(path_)); }

void RunFolder::hold(std::string_view or_else) {
  const fs::path file = lock_file(path_);
  auto lock = LockFile::try_lock(file);
  if (!lock) {
    fail<InvalidArgument>("{} belongs to a run that is going on ({}): end that one first (trireme stop {}), or {}",
                          path_.string(), read_file(file), path_.string(), or_else);
  }
  lock->describe_holder(describe_this_process());
  lock_ = std::make_shared<const LockFile>(std::move(*lock));
}

RunFolder RunFolder::create(const RunFolderOptions& options) {
  const bool made_up = options.path.empty() && options.name.empty();
  if (options.path.empty() && !made_up) check_name(options.name);
  RunFolder folder(made_up                ? make_unique_folder(options)
                   : options.path.empty() ? options.root / options.name
                                          : options.path);
  make_folder(folder.path_);
  folder.hold("choose another folder with --out");  // before anything in it changes
  const std::vector<fs::path> old_files = folder.run_files();
  if (!old_files.empty() && !options.overwrite) {
    fail<InvalidArgument>(
        "{} already holds a run ({}): choose another folder with --out, or replace it with --overwrite",
        folder.path_.string(), old_files.front().lexically_relative(folder.path_).string());
  }
  for (const fs::path& file : old_files) {
    std::error_code error;
    fs::remove(file, error);
    if (error) fail<IoError>("cannot remove {} of the earlier run: {}", file.string(), error.message());
  }
  make_folder(folder.tensorboard());
  make_folder(folder.logs());
  return folder;
}

RunFolder RunFolder::open(const fs::path& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    fail<InvalidArgument>("there is no run folder {}; is it on a disk that this machine can see?", path.string());
  }
  return RunFolder(path);
}

RunFolder RunFolder::reopen(const fs::path& path) {
  RunFolder folder = open(path);
  folder.hold();
  return folder;
}

fs::path RunFolder::log(std::string_view role) const { return logs() / (as_file_name(role) + ".log"); }

std::vector<fs::path> RunFolder::run_files() const {
  std::vector<fs::path> files;
  for (const fs::path& file : {metrics(), model(), result(), config(), data(), program(), timeline(), trainer(),
                               start(), samples(), network(), script(), notes(), page(), page_certificate()}) {
    if (std::error_code error; fs::exists(fs::symlink_status(file, error))) files.push_back(file);
  }
  collect(path_, files, is_step_trace);
  collect(timeline_parts(), files, [](const std::string& name) { return name.ends_with(".jsonl"); });
  collect(tensorboard(), files, [](const std::string& name) { return name.starts_with("events.out.tfevents."); });
  collect(logs(), files, [](const std::string& name) { return name.ends_with(".log"); });
  std::vector<fs::path> steps;
  collect(checkpoints(), steps, [](const std::string& name) { return name.starts_with("step-"); });
  for (const fs::path& step : steps) {
    collect(step, files, [](const std::string& name) { return name == "manifest.json" || name.starts_with("part-"); });
    files.push_back(step);  // after its files: only an empty folder can be removed
  }
  return files;
}

}  // namespace trireme::observe
