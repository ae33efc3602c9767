#include "checkpoint/file_system.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/error.h"
#include "base/file.h"

namespace trireme::checkpoint {
namespace {

constexpr std::size_t kPage = 4096;  // direct writes must be multiples of this, in memory and in the file
constexpr ssize_t kMuch = 1 << 20;   // a write that keeps a disk busy for a while

class RealFile final : public WritableFile {
 public:
  explicit RealFile(std::filesystem::path path) : path_(std::move(path)) {
    constexpr int kFlags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC;
    file_ = FileDescriptor(::open(path_.c_str(), kFlags | O_DIRECT, 0644));
    direct_ = static_cast<bool>(file_);
    if (!file_) file_ = FileDescriptor(::open(path_.c_str(), kFlags, 0644));  // not all file systems support O_DIRECT
    if (!file_) fail_errno("cannot create " + path_.string());
  }

  std::size_t write(Bytes bytes) override {
    if (bytes.empty()) return 0;
    if (direct_) {
      const bool aligned = reinterpret_cast<std::uintptr_t>(bytes.data()) % kPage == 0 && bytes.size() >= kPage;
      if (aligned) bytes = bytes.first(bytes.size() / kPage * kPage);
      if (!aligned) go_through_cache();
    }
    ssize_t written = ::write(file_.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINVAL && direct_) {
      go_through_cache();
      written = ::write(file_.get(), bytes.data(), bytes.size());
    }
    if (written < 0 && errno == EINTR) return write(bytes);
    if (written < 0) fail_errno("cannot write " + path_.string());
    if (written == 0) fail<IoError>("cannot write {}: the disk takes nothing more", path_.string());
    if (direct_ && static_cast<std::size_t>(written) % kPage != 0) go_through_cache();
    if (!direct_ && written >= kMuch) {  // start writing back now rather than all at once in sync()
      ::sync_file_range(file_.get(), position_, written, SYNC_FILE_RANGE_WRITE);
    }
    position_ += written;
    return static_cast<std::size_t>(written);
  }

  void sync() override {
    if (::fsync(file_.get()) != 0) fail_errno("cannot sync " + path_.string());
  }

 private:
  void go_through_cache() {
    direct_ = false;
    if (::fcntl(file_.get(), F_SETFL, 0) != 0) fail_errno("cannot write " + path_.string());
  }

  std::filesystem::path path_;
  FileDescriptor file_;
  off_t position_ = 0;
  bool direct_ = false;
};

class RealFileSystem final : public FileSystem {
 public:
  std::unique_ptr<WritableFile> create(const std::filesystem::path& path) override {
    return std::make_unique<RealFile>(path);
  }

  void make_folder(const std::filesystem::path& path) override {
    std::error_code problem;
    std::filesystem::create_directories(path, problem);
    if (problem) fail<IoError>("cannot make folder {}: {}", path.string(), problem.message());
  }

  void rename(const std::filesystem::path& from, const std::filesystem::path& to) override {
    if (::rename(from.c_str(), to.c_str()) != 0)
      fail_errno(fmt::format("cannot rename {} to {}", from.string(), to.string()));
  }

  void remove(const std::filesystem::path& path) override {
    std::error_code problem;
    std::filesystem::remove(path, problem);
    if (problem) fail<IoError>("cannot remove {}: {}", path.string(), problem.message());
  }

  void sync_folder(const std::filesystem::path& folder) override {
    const FileDescriptor directory(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!directory || ::fsync(directory.get()) != 0) fail_errno("cannot sync folder " + folder.string());
  }

  std::vector<std::string> list(const std::filesystem::path& folder) override {
    std::vector<std::string> names;
    std::error_code problem;
    std::filesystem::directory_iterator entry(folder, problem);
    for (; !problem && entry != std::filesystem::directory_iterator(); entry.increment(problem)) {
      names.push_back(entry->path().filename().string());
    }
    if (problem && problem != std::errc::no_such_file_or_directory) {
      fail<IoError>("cannot look into {}: {}", folder.string(), problem.message());
    }
    std::ranges::sort(names);
    return names;
  }

  std::optional<std::uint64_t> size(const std::filesystem::path& path) override {
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0) {
      if (errno == ENOENT || errno == ENOTDIR) return std::nullopt;
      fail_errno("cannot look at " + path.string());
    }
    if (!S_ISREG(status.st_mode)) return std::nullopt;
    return static_cast<std::uint64_t>(status.st_size);
  }

  std::string read(const std::filesystem::path& path, std::uint64_t at_most) override {
    // Non-blocking: opening a named pipe without a writer would otherwise block forever.
    const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!file) fail_errno("cannot open " + path.string());
    struct stat status {};
    if (::fstat(file.get(), &status) != 0) fail_errno("cannot look at " + path.string());
    if (!S_ISREG(status.st_mode)) fail<Corrupt>("{} is not a file", path.string());
    const auto size = static_cast<std::uint64_t>(status.st_size);
    if (size > at_most) fail<Corrupt>("{} has {} bytes, at most {} are allowed", path.string(), size, at_most);
    std::string content(size, '\0');
    std::size_t have = 0;
    while (have < content.size()) {
      const ssize_t got = ::read(file.get(), content.data() + have, content.size() - have);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) fail_errno("cannot read " + path.string());
      if (got == 0) fail<Corrupt>("{} became shorter while it was read", path.string());
      have += static_cast<std::size_t>(got);
    }
    return content;
  }
};

}  // namespace

FileSystem& real_file_system() {
  static RealFileSystem system;
  return system;
}

void write_all(WritableFile& file, Bytes bytes) {
  while (!bytes.empty()) bytes = bytes.subspan(file.write(bytes));
}

void replace_file(FileSystem& files, const std::filesystem::path& path, std::string_view content) {
  std::filesystem::path beside = path;
  beside += ".partial";
  try {
    const auto file = files.create(beside);
    write_all(*file, as_bytes(content));
    file->sync();
    files.rename(beside, path);
  } catch (const Error&) {
    try {
      files.remove(beside);
    } catch (const Error&) {  // report the first failure, not this one
    }
    throw;
  }
  files.sync_folder(path.parent_path());
}

}  // namespace trireme::checkpoint
