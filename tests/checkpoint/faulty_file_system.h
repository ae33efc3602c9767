#pragma once

#include <cerrno>
#include <functional>
#include <mutex>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/file_system.h"

namespace trireme::checkpoint {

/// What goes wrong, and when. Operations count from 0.
struct FaultPlan {
  enum class Kind {
    kOnce,   ///< this operation fails, later ones do not
    kFull,   ///< from here on whatever needs space fails; what frees it does not
    kCrash,  ///< from here on nothing happens any more: the process is dead
  };

  std::uint64_t at = ~std::uint64_t{0};
  Kind kind = Kind::kOnce;
  int error = ENOSPC;
  std::size_t longest_write = ~std::size_t{0};  ///< longer ones are cut short
};

/// The real file system with faults. Also remembers what a loss of power could take back.
class FaultyFileSystem final : public FileSystem {
 public:
  explicit FaultyFileSystem(const FaultPlan& plan = {}) : plan_(plan) {}

  std::uint64_t operations() const {
    return with_lock([this] { return operations_; });
  }
  std::uint64_t injected() const {
    return with_lock([this] { return injected_; });
  }

  /// Takes back all that was not synced, newest first.
  void lose_power() {
    with_lock([this] {
      while (!unsynced_.empty()) {
        unsynced_.back().take_back();
        unsynced_.pop_back();
      }
    });
  }

  std::unique_ptr<WritableFile> create(const std::filesystem::path& path) override {
    before(true);
    remember(path);
    return std::make_unique<File>(*this, path);
  }
  void make_folder(const std::filesystem::path& path) override {
    before(true);
    real_file_system().make_folder(path);
  }
  void rename(const std::filesystem::path& from, const std::filesystem::path& to) override {
    before(true);
    remember(to);
    remember(from);
    real_file_system().rename(from, to);
  }
  void remove(const std::filesystem::path& path) override {
    before(false);
    if (real_file_system().size(path)) remember(path);
    real_file_system().remove(path);
  }
  void sync_folder(const std::filesystem::path& folder) override {
    before(false);
    with_lock([&] { std::erase_if(unsynced_, [&](const Change& change) { return change.synced_by == folder; }); });
  }
  std::vector<std::string> list(const std::filesystem::path& folder) override {
    before(false);
    return real_file_system().list(folder);
  }
  std::optional<std::uint64_t> size(const std::filesystem::path& path) override {
    before(false);
    return real_file_system().size(path);
  }
  std::string read(const std::filesystem::path& path, std::uint64_t at_most) override {
    before(false);
    return real_file_system().read(path, at_most);
  }

 private:
  class File final : public WritableFile {
   public:
    File(FaultyFileSystem& system, const std::filesystem::path& path)
        : system_(system), path_(path), file_(real_file_system().create(path)) {}

    std::size_t write(Bytes bytes) override {
      bytes = bytes.first(std::min(bytes.size(), system_.plan_.longest_write));
      try {
        system_.before(true);
      } catch (const IoError&) {  // the last write before the end may have got half of its way
        if (bytes.size() > 1 && !std::exchange(torn_, true)) file_->write(bytes.first(bytes.size() / 2));
        throw;
      }
      return file_->write(bytes);
    }
    void sync() override {
      system_.before(true);
      synced_ = true;
    }
    ~File() override {
      if (synced_) return;
      system_.with_lock([&] {  // written, never synced: after a loss of power it may be empty
        system_.unsynced_.push_back({path_, [path = path_] {
                                       std::error_code ignored;
                                       if (std::filesystem::exists(path))
                                         std::filesystem::resize_file(path, 0, ignored);
                                     }});
      });
    }

   private:
    FaultyFileSystem& system_;
    std::filesystem::path path_;
    std::unique_ptr<WritableFile> file_;
    bool synced_ = false;
    bool torn_ = false;
  };

  struct Change {
    std::filesystem::path synced_by;
    std::function<void()> take_back;
  };

  template <typename Work>
  std::invoke_result_t<const Work&> with_lock(const Work& work) const {
    const std::scoped_lock lock(mutex_);
    return work();
  }

  void before(bool needs_space) {
    with_lock([&] {
      const std::uint64_t number = operations_++;
      using enum FaultPlan::Kind;
      const bool fails =
          number == plan_.at || (number > plan_.at && (plan_.kind == kCrash || (plan_.kind == kFull && needs_space)));
      if (!fails) return;
      ++injected_;
      errno = plan_.error;
      fail_errno("injected");
    });
  }

  /// What is at `path` now comes back if its folder is not synced.
  void remember(const std::filesystem::path& path) {
    std::function<void()> take_back = [path] { std::filesystem::remove(path); };
    if (real_file_system().size(path)) {
      take_back = [path, content = read_file(path)] {
        std::filesystem::create_directories(path.parent_path());
        const auto file = real_file_system().create(path);
        write_all(*file, as_bytes(content));
      };
    }
    with_lock([&] { unsynced_.push_back({path.parent_path(), std::move(take_back)}); });
  }

  const FaultPlan plan_;
  mutable std::mutex mutex_;  // guards all below
  std::uint64_t operations_ = 0;
  std::uint64_t injected_ = 0;
  std::vector<Change> unsynced_;
};

}  // namespace trireme::checkpoint
