#include "checkpoint/part_writer.h"

#include <algorithm>

#include <fmt/ranges.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mutex.h"

namespace trireme::checkpoint {
namespace {

using Clock = Deadline::Clock;

constexpr std::uint64_t kWriteBytes = 8 << 20;  // per write: larger ones are not faster

void check_stop(const std::stop_token& stop) {
  if (stop.stop_requested()) fail<Error>("given up: the writer was closed");
}

std::optional<Manifest> manifest_there(FileSystem& files, const std::filesystem::path& folder) {
  try {
    return load_manifest(files, folder);
  } catch (const Corrupt&) {  // none, or a damaged one that may be replaced
    return std::nullopt;
  }
}

/// Limits writing to `bytes_per_second`: waits until enough time has passed for what was written so far.
class Pace {
 public:
  explicit Pace(std::uint64_t bytes_per_second) : rate_(bytes_per_second) {}

  /// Returns how much to write at once: so little that the rate holds within a tenth of a second.
  std::uint64_t step() const {
    constexpr std::uint64_t kWholePage = 4096;  // whole pages, see WritableFile::write
    return rate_ == 0 ? kWriteBytes
                      : std::clamp<std::uint64_t>(rate_ / 10 / kWholePage * kWholePage, kWholePage, kWriteBytes);
  }

  void wait(std::uint64_t written, const std::stop_token& stop) const {
    if (rate_ == 0) return;
    const std::chrono::duration<double> due(static_cast<double>(written) / static_cast<double>(rate_));
    sleep_until(stop, began_ + std::chrono::duration_cast<Clock::duration>(due));
  }

 private:
  std::uint64_t rate_;
  Clock::time_point began_ = Clock::now();
};

/// Writes `bytes`; returns the CRC of each block, computed right before it is written, while it is in the cache.
std::vector<std::uint32_t> write_data(WritableFile& file, Bytes bytes, std::uint64_t bytes_per_second,
                                      const std::stop_token& stop) {
  const Pace pace(bytes_per_second);
  std::vector<std::uint32_t> crcs;
  std::uint64_t written = 0;
  while (written < bytes.size()) {
    check_stop(stop);
    const Bytes now = bytes.subspan(written, std::min<std::uint64_t>(pace.step(), bytes.size() - written));
    written += now.size();
    while (crcs.size() * kBlockBytes < written) {
      const std::uint64_t begin = crcs.size() * kBlockBytes;
      crcs.push_back(crc32c(bytes.subspan(begin, std::min(kBlockBytes, bytes.size() - begin))));
    }
    write_all(file, now);
    pace.wait(written, stop);
  }
  check_stop(stop);
  return crcs;
}

bool has_index(FileSystem& files, const std::filesystem::path& folder, const PartKey& key) {
  return files.size(folder / (key.stem() + ".json")).has_value();
}

/// Runs `work` and only logs its failure: the caller reports the failure that led here.
template <typename Work>
void tidy_up(const Work& work) {
  try {
    work();
  } catch (const Error& problem) {
    log_warn("file_left_behind", "a checkpoint file that is no longer needed could not be removed",
             {{"reason", problem.what()}});
  }
}

/// Returns once the indexes of all parts exist. Throws Timeout naming those that are missing.
void await_parts(FileSystem& files, const std::filesystem::path& folder, std::vector<PartKey> missing,
                 const Deadline& deadline, const std::stop_token& stop) {
  constexpr Clock::duration kLongestNap = 200ms;
  for (Clock::duration nap = 2ms;; nap = std::min(2 * nap, kLongestNap)) {
    std::erase_if(missing, [&](const PartKey& key) { return has_index(files, folder, key); });
    if (missing.empty()) return;
    check_stop(stop);
    if (deadline.passed()) {
      std::vector<std::uint32_t> numbers;
      for (const PartKey& key : missing) numbers.push_back(key.part);
      fail<Timeout>(
          "part {} of {} of step {}, attempt '{}', did not come within {} s; its writer may have died: see its "
          "log, and whether {} is the same folder for it",
          fmt::join(numbers, ", "), missing.front().parts, missing.front().step, missing.front().attempt,
          static_cast<double>(deadline.allowed().count()) / 1000, folder.string());
    }
    sleep_until(stop, std::min(deadline.at(), Clock::now() + nap));
  }
}

}  // namespace

void write_part(FileSystem& files, const std::filesystem::path& folder, const PartKey& key, const Staging& staging,
                std::uint64_t bytes_per_second, const std::stop_token& stop) {
  if (const auto there = manifest_there(files, folder); there && there->attempt == key.attempt) {
    fail<InvalidArgument>("{} holds a complete checkpoint of attempt '{}' already; give each attempt its own name",
                          folder.string(), key.attempt);
  }
  const std::filesystem::path data = folder / (key.stem() + ".bin");
  const std::filesystem::path index = folder / (key.stem() + ".json");
  files.make_folder(folder);
  files.sync_folder(folder.parent_path());
  files.remove(index);  // left by an earlier try of this attempt: it would confirm data that we are about to replace
  try {
    const auto file = files.create(data);
    std::vector<std::uint32_t> crcs = write_data(*file, staging.bytes(), bytes_per_second, stop);
    file->sync();
    replace_file(files, index,
                 encode(PartIndex{.step = key.step,
                                  .attempt = key.attempt,
                                  .part = key.part,
                                  .parts = key.parts,
                                  .block_bytes = kBlockBytes,
                                  .bytes = staging.bytes().size(),
                                  .pieces = {staging.pieces().begin(), staging.pieces().end()},
                                  .crcs = std::move(crcs)}));
  } catch (const Error&) {
    // Once the index has its final name the chief may have seen it and relies on the data.
    tidy_up([&] {
      if (!has_index(files, folder, key)) files.remove(data);
    });
    throw;
  }
}

void complete_checkpoint(FileSystem& files, const std::filesystem::path& folder, Manifest manifest,
                         const Deadline& deadline, const std::stop_token& stop) {
  std::vector<PartKey> keys;
  const auto parts = static_cast<std::uint32_t>(manifest.parts.size());
  for (std::uint32_t part = 0; part < parts; ++part) {
    keys.push_back({.step = manifest.step, .attempt = manifest.attempt, .part = part, .parts = parts});
  }
  await_parts(files, folder, keys, deadline, stop);
  std::vector<PartIndex> indexes;
  for (const PartKey& key : keys) {
    LoadedIndex loaded = load_index(files, folder, key);
    manifest.parts[key.part] = {.bytes = loaded.index.bytes, .index_sha256 = std::move(loaded.sha256)};
    indexes.push_back(std::move(loaded.index));
  }
  lay_out(manifest.tensors, indexes, folder.string());
  files.sync_folder(folder);  // the names of all parts, before the manifest that confirms them

  const std::optional<Manifest> replaced = manifest_there(files, folder);
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  manifest.written_ms = std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
  replace_file(files, folder / kManifestName, encode(manifest));
  if (!replaced) return;
  const auto old_parts = static_cast<std::uint32_t>(replaced->parts.size());
  for (std::uint32_t part = 0; part < old_parts; ++part) {
    const std::string stem = part_stem(part, old_parts, replaced->attempt);
    tidy_up([&] { files.remove(folder / (stem + ".bin")); });
    tidy_up([&] { files.remove(folder / (stem + ".json")); });
  }
}

}  // namespace trireme::checkpoint
