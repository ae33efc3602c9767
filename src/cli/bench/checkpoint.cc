#include "cli/bench/checkpoint.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <future>
#include <memory>
#include <vector>

#include "trireme/deadline.h"

#include "base/error.h"
#include "base/file.h"
#include "base/random.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/writer.h"
#include "observe/bench_report.h"

namespace trireme::cli {
namespace {

using checkpoint::Checkpoint;
using checkpoint::Piece;
using checkpoint::Writer;
using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kTensors = 64;

double elapsed_since(Clock::time_point began) { return seconds(Clock::now() - began); }

/// A folder of our own that is removed with everything in it.
class Workplace {
 public:
  explicit Workplace(const std::filesystem::path& within) : path_(within / ("trireme-bench-" + random_hex(6))) {
    std::filesystem::create_directory(path_);
  }
  ~Workplace() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Workplace(const Workplace&) = delete;
  Workplace& operator=(const Workplace&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// Seconds that `dd if=/dev/zero of=<file> bs=1M conv=fdatasync` takes.
double time_dd(const std::filesystem::path& file, std::uint64_t bytes) {
  const std::string of = "of=" + file.string();
  const std::string count = fmt::format("count={}", bytes / kMiB);
  const char* argv[] = {"dd",          "if=/dev/zero",   of.c_str(),    "bs=1M",
                        count.c_str(), "conv=fdatasync", "status=none", nullptr};
  const auto began = Clock::now();
  pid_t pid = 0;
  if (::posix_spawnp(&pid, "dd", nullptr, nullptr, const_cast<char**>(argv), environ) != 0) {
    fail<IoError>("cannot start dd, which this benchmark compares with: install coreutils");
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  if (status != 0) fail<IoError>("dd could not write {}: is the disk full?", file.string());
  return elapsed_since(began);
}

void drop_from_cache(const std::filesystem::path& folder) {
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const FileDescriptor file(::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC));
    ::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED);
  }
}

/// What one round found, in seconds.
struct Round {
  double dd = 0;
  double pause = 0;
  double write = 0;
  double restore_disk = 0;
  double restore_cache = 0;
};

class CheckpointBench {
 public:
  explicit CheckpointBench(const BenchCheckpointOptions& options)
      : rounds_(options.rounds),
        bytes_((options.bytes + kMiB - 1) / kMiB * kMiB),
        place_(options.folder),
        state_(bytes_) {
    RandomStream random(1);  // not zeros: some disks compress them
    for (std::uint64_t i = 0; i + 8 <= bytes_; i += 8) store_le(MutableBytes(state_).subspan(i), random.next());
    for (std::uint64_t i = 0; i < kTensors; ++i) {
      const std::uint64_t size = bytes_ / kTensors;
      tensors_.push_back(
          {.name = fmt::format("model/{}.weight", i), .dtype = DType::kU8, .shape = {static_cast<std::int64_t>(size)}});
    }
  }

  observe::BenchReport run() {
    report_.baseline = {{"memcpy_gbps", gbps(time_memcpy())}, {"dd_gbps", 0.0}};
    report_.tables.push_back(
        {.key = "rows",
         .title = fmt::format("{} of state in {}: medians of {} rounds, taking turns with dd\n"
                              "(pause: what training waits for, the first time memory is new; write: "
                              "until it is complete on disk;\nrestore: read with checksums, after "
                              "the page cache was dropped, and from it)",
                              observe::as_size(bytes_), place_.path().parent_path().string(), rounds_),
         .columns = {{"parts", "parts"},
                     {"first_pause_ms", "first pause ms", observe::as_fixed},
                     {"pause_ms", "pause ms", observe::as_fixed},
                     {"write_gbps", "write GB/s", observe::as_fixed},
                     {"dd_gbps", "dd GB/s", observe::as_fixed},
                     {"of_dd", "of dd", observe::as_fixed},
                     {"restore_gbps", "restore GB/s", observe::as_fixed},
                     {"restore_cached_gbps", "cached GB/s", observe::as_fixed}},
         .rows = {}});
    std::vector<double> all_dd;
    for (const std::uint32_t parts : {1u, 2u}) measure(parts, all_dd);
    if (::isatty(STDERR_FILENO) == 1) fmt::print(stderr, "\r\33[K");
    report_.baseline["dd_gbps"] = gbps(observe::median(all_dd));
    for (const observe::Json& row : report_.tables[0].rows) {
      report_.targets.push_back({.what = fmt::format("write in {} part(s), of dd", row["parts"].get<int>()),
                                 .required = 0.8,
                                 .measured = row["of_dd"].get<double>()});
    }
    return std::move(report_);
  }

 private:
  /// On a terminal one line that is overwritten, in a log many lines.
  static void progress(const std::string& what) {
    const bool terminal = ::isatty(STDERR_FILENO) == 1;
    fmt::print(stderr, "{}bench checkpoint: {}{}", terminal ? "\r\33[K" : "", what, terminal ? "" : "\n");
  }

  double gbps(double time) const { return static_cast<double>(bytes_) / time / 1e9; }

  double time_memcpy() const {
    std::vector<std::byte> to(std::min<std::uint64_t>(bytes_, 100 * kMiB), std::byte{1});
    const auto began = Clock::now();
    std::memcpy(to.data(), state_.data(), to.size());
    asm volatile("" : : "r"(to.data()) : "memory");  // keeps the compiler from dropping the copy
    return elapsed_since(began) * static_cast<double>(bytes_) / static_cast<double>(to.size());
  }

  MutableBytes tensor(std::uint64_t number) {
    const std::uint64_t size = bytes_ / kTensors;
    return MutableBytes(state_).subspan(number * size, size);
  }

  void measure(std::uint32_t parts, std::vector<double>& all_dd) {
    std::vector<std::unique_ptr<Writer>> writers;
    for (std::uint32_t part = 0; part < parts; ++part) {
      writers.push_back(std::make_unique<Writer>(
          checkpoint::WriterOptions{.folder = place_.path() / "checkpoints", .retention = {.keep_last = 1}}));
    }
    std::vector<Round> results;
    for (std::uint32_t round = 0; round < rounds_; ++round) {
      progress(fmt::format("{} part(s), round {} of {}", parts, round + 1, rounds_));
      results.push_back(measure_round(writers, round));
      all_dd.push_back(results.back().dd);
    }
    const auto middle = [&](double Round::*field) {
      std::vector<double> values;
      for (const Round& result : results) values.push_back(result.*field);
      return observe::median(std::move(values));
    };
    const double first = results.front().pause;
    if (results.size() > 1) results.front().pause = results.back().pause;  // it is reported separately
    const double pause = middle(&Round::pause);
    report_.tables[0].rows.push_back({{"parts", parts},
                                      {"first_pause_ms", first * 1e3},
                                      {"pause_ms", pause * 1e3},
                                      {"write_gbps", gbps(middle(&Round::write))},
                                      {"dd_gbps", gbps(middle(&Round::dd))},
                                      {"of_dd", middle(&Round::dd) / middle(&Round::write)},
                                      {"restore_gbps", gbps(middle(&Round::restore_disk))},
                                      {"restore_cached_gbps", gbps(middle(&Round::restore_cache))}});
    std::filesystem::remove_all(place_.path() / "checkpoints");
  }

  Round measure_round(const std::vector<std::unique_ptr<Writer>>& writers, Step step) {
    Round round;
    round.dd = time_dd(place_.path() / "dd.bin", bytes_);
    std::filesystem::remove(place_.path() / "dd.bin");
    const auto parts = static_cast<std::uint32_t>(writers.size());
    auto began = Clock::now();
    for (std::uint32_t part = parts; part-- > 0;) {  // the pauses of writers on one machine add up
      std::vector<Piece> pieces;
      for (std::uint64_t i = part; i < kTensors; i += parts)
        pieces.push_back({.tensor = tensors_[i].name, .bytes = tensor(i)});
      const auto copy_began = Clock::now();
      TRIREME_CHECK(writers[part]->start({.step = step, .part = part, .parts = parts, .tensors = tensors_}, pieces));
      round.pause += elapsed_since(copy_began);
      if (part > 0) continue;
      began = Clock::now();
    }
    for (std::uint32_t part = parts; part-- > 0;) {
      const auto report = writers[part]->finish(Deadline::in(1h)).value();
      if (!report.written || (part == 0 && !report.complete)) fail<IoError>("{}", report.problem);
      round.write = std::max(round.write, part == 0 ? elapsed_since(began) : report.write_seconds);
    }
    const auto folder = place_.path() / "checkpoints" / checkpoint::step_folder_name(step);
    drop_from_cache(folder);
    round.restore_disk = time_restore(folder, parts);
    round.restore_cache = time_restore(folder, parts);
    return round;
  }

  /// One thread per part, as each process of a run restores its own.
  double time_restore(const std::filesystem::path& folder, std::uint32_t parts) {
    const auto began = Clock::now();
    const Checkpoint opened = Checkpoint::open(folder);
    std::vector<std::future<void>> readers;
    for (std::uint32_t part = 0; part < parts; ++part) {
      readers.push_back(std::async(std::launch::async, [this, part, parts, &opened] {
        for (std::uint64_t i = part; i < kTensors; i += parts) opened.read(tensors_[i].name, 0, tensor(i));
      }));
    }
    for (auto& reader : readers) reader.get();
    return elapsed_since(began);
  }

  const std::uint32_t rounds_;
  const std::uint64_t bytes_;
  const Workplace place_;
  std::vector<std::byte> state_;
  std::vector<checkpoint::TensorInfo> tensors_;
  observe::BenchReport report_;
};

}  // namespace

int bench_checkpoint(const BenchCheckpointOptions& options) {
  try {
    const observe::BenchReport report = CheckpointBench(options).run();
    fmt::print("{}", options.json ? observe::to_object(report).dump() + "\n" : observe::to_text(report));
    return 0;
  } catch (const std::exception& problem) {
    fmt::print(stderr, "bench checkpoint: {}\n", problem.what());
    return 1;
  }
}

}  // namespace trireme::cli
