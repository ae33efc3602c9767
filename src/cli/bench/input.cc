#include "cli/bench/input.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <numeric>
#include <vector>

#include <fmt/format.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/file.h"
#include "base/random.h"
#include "cli/bench/input_files.h"
#include "observe/bench_report.h"

namespace trireme::cli {
namespace {

using std::filesystem::path;

constexpr std::size_t kBatch = 256;

/// Seconds that this thread has computed. Nothing here waits for a disk, so on a quiet machine this is the time that
/// passes; on a busy one, what others do does not count.
double computed_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

double resident_mib() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    double kib = 0;
    if (word == "VmHWM:" && status >> kib) return kib / 1024;
  }
  return NAN;
}

/// Reads as dd does: 1 MiB at a time into the same buffer.
double time_plain(const std::vector<path>& files) {
  std::vector<std::byte> buffer(kMiB);
  const double began = computed_seconds();
  for (const path& file : files) {
    const FileDescriptor input(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
    while (::read(input.get(), buffer.data(), buffer.size()) > 0) {
    }
  }
  return computed_seconds() - began;
}

double time_samples(const data::Dataset& dataset, bool shuffled) {
  std::vector<std::uint64_t> order(dataset.size());
  std::iota(order.begin(), order.end(), 0);
  if (shuffled) {
    std::uint64_t state = 1;  // any order that jumps about will do
    for (std::size_t i = order.size(); i > 1; --i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      std::swap(order[i - 1], order[(state >> 33) % i]);
    }
  }
  data::Batch batch;
  const double began = computed_seconds();
  for (std::span<const std::uint64_t> left = order; !left.empty();) {
    const std::size_t count = std::min(kBatch, left.size());
    dataset.read(left.first(count), batch);
    left = left.subspan(count);
  }
  return computed_seconds() - began;
}

class InputBench {
 public:
  explicit InputBench(const BenchInputOptions& options)
      : options_(options), folder_(path(options.folder) / ("trireme-bench-" + random_hex(6))) {
    std::filesystem::create_directories(folder_);
  }
  ~InputBench() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  InputBench(const InputBench&) = delete;
  InputBench& operator=(const InputBench&) = delete;

  observe::BenchReport run() {
    report_.tables.push_back(
        {.key = "sources",
         .title = "Samples per second of a core's time: while a source is opened, in order, in random order; beside a "
                  "plain read of its files from the page cache",
         .columns = {{.key = "source", .title = "source"},
                     {.key = "bytes", .title = "files", .format = observe::as_size},
                     {.key = "samples", .title = "samples", .format = whole},
                     {.key = "opened_per_s", .title = "opened/s", .format = whole},
                     {.key = "samples_per_s", .title = "in order/s", .format = whole},
                     {.key = "random_per_s", .title = "random/s", .format = whole},
                     {.key = "gbps", .title = "GB/s", .format = observe::as_fixed},
                     {.key = "plain_gbps", .title = "plain GB/s", .format = observe::as_fixed},
                     {.key = "of_plain", .title = "of plain", .format = observe::as_fixed}},
         .rows = {}});
    for (const InputSource& source : make_input_files(folder_, options_.bytes)) measure(source);
    report_.baseline["peak_resident_mib"] = resident_mib();
    report_.targets.push_back({.what = "peak resident memory",
                               .bound = observe::BenchTarget::Bound::kAtMost,
                               .required = 1024,
                               .measured = resident_mib(),
                               .unit = "MiB"});
    return std::move(report_);
  }

 private:
  static std::string whole(const observe::Json& value) { return fmt::format("{:.0f}", value.get<double>()); }

  void measure(const InputSource& source) {
    fmt::print(stderr, "bench input: {}\n", source.name);
    const double began = computed_seconds();
    data::DatasetPtr dataset;
    try {
      dataset = source.open();
    } catch (const InvalidArgument& problem) {  // of a library that this build has not
      fmt::print(stderr, "bench input: without {}: {}\n", source.name, problem.what());
      return;
    }
    const double opened = computed_seconds() - began;  // of records: their index is made; of tables: all is read
    double bytes = 0;
    for (const path& file : source.files) bytes += static_cast<double>(std::filesystem::file_size(file));
    std::vector<double> plain;
    std::vector<double> times[2];
    time_plain(source.files);  // into the page cache
    for (std::uint32_t round = 0; round < options_.rounds; ++round) {
      plain.push_back(time_plain(source.files));
      for (const bool shuffled : {false, true}) times[shuffled].push_back(time_samples(*dataset, shuffled));
    }
    const double raw = observe::median(plain);
    const double in_order = observe::median(times[0]);
    const auto samples = static_cast<double>(dataset->size());
    report_.tables[0].rows.push_back({{"source", source.name},
                                      {"bytes", static_cast<std::uint64_t>(bytes)},
                                      {"samples", samples},
                                      {"opened_per_s", samples / opened},
                                      {"samples_per_s", samples / in_order},
                                      {"random_per_s", samples / observe::median(times[1])},
                                      {"gbps", bytes / in_order / 1e9},
                                      {"plain_gbps", bytes / raw / 1e9},
                                      {"of_plain", raw / in_order}});
    if (!source.streams) return;
    report_.targets.push_back(
        {.what = source.name + " in order, of plain reading", .required = 0.7, .measured = raw / in_order});
  }

  const BenchInputOptions options_;
  const path folder_;
  observe::BenchReport report_;
};

}  // namespace

int bench_input(const BenchInputOptions& options) {
  try {
    const observe::BenchReport report = InputBench(options).run();
    fmt::print("{}", options.json ? observe::to_object(report).dump() + "\n" : observe::to_text(report));
    return 0;
  } catch (const std::exception& problem) {
    fmt::print(stderr, "bench input: {}\n", problem.what());
    return 1;
  }
}

}  // namespace trireme::cli
