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

#include "trireme/sources.h"

#include "base/bytes.h"
#include "base/error.h"
#include "base/file.h"
#include "base/random.h"
#include "data/records/tfrecord_file.h"
#include "observe/bench_report.h"

namespace trireme::cli {
namespace {

using std::filesystem::path;

constexpr std::size_t kBatch = 256;
constexpr std::uint64_t kLength = 1024;           // tokens of a window
constexpr std::size_t kImageBytes = 3 * 64 * 64;  // of a record: an image as bytes, and a label

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

/// A generated file, and the dataset that reads it.
struct InputCase {
  std::string name;
  path file;
  std::function<data::DatasetPtr(const path&)> open;
};

void write_stream(const path& file, std::uint64_t bytes, const std::function<void(std::string&, std::uint64_t)>& make) {
  std::ofstream out(file, std::ios::binary);
  std::string piece;
  for (std::uint64_t done = 0, number = 0; done < bytes; done += piece.size()) {
    piece.clear();
    while (piece.size() < kMiB) make(piece, number++);
    out.write(piece.data(), static_cast<std::streamsize>(piece.size()));
  }
  if (!out.flush()) fail<IoError>("cannot write {}", file.string());
}

void make_tokens(std::string& piece, std::uint64_t number) {
  std::uint16_t tokens[512];
  for (std::size_t i = 0; i < std::size(tokens); ++i) tokens[i] = static_cast<std::uint16_t>((number * 31 + i) % 50257);
  piece.append(reinterpret_cast<const char*>(tokens), sizeof(tokens));
}

/// A length as protocol buffers write it.
void put_varint(std::string& out, std::uint64_t value) {
  for (; value > 0x7f; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

std::string field(int number, std::string_view content) {
  std::string out(1, static_cast<char>(number << 3 | 2));
  put_varint(out, content.size());
  return out.append(content);
}

void make_record(std::string& piece, std::uint64_t number) {
  const std::string image(kImageBytes, static_cast<char>(number));
  const std::string label(1, static_cast<char>(number % 10));
  const std::string features = field(1, field(1, "image") + field(2, field(1, field(1, image)))) +
                               field(1, field(1, "label") + field(2, field(3, field(1, label))));
  data::append_record(as_bytes(field(1, features)), piece);
}

/// Reads as dd does: 1 MiB at a time into the same buffer.
double time_plain(const path& file) {
  std::vector<std::byte> buffer(kMiB);
  const FileDescriptor input(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  const double began = computed_seconds();
  while (::read(input.get(), buffer.data(), buffer.size()) > 0) {
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
         .title = "Samples from one file per second of a core's time, and a plain read of it from the page cache",
         .columns = {{.key = "source", .title = "source"},
                     {.key = "order", .title = "order"},
                     {.key = "bytes", .title = "file", .format = observe::as_size},
                     {.key = "samples_per_s", .title = "samples/s", .format = whole},
                     {.key = "gbps", .title = "GB/s", .format = observe::as_fixed},
                     {.key = "plain_gbps", .title = "plain GB/s", .format = observe::as_fixed},
                     {.key = "of_plain", .title = "of plain", .format = observe::as_fixed}},
         .rows = {}});
    write_stream(folder_ / "tokens.bin", options_.bytes, make_tokens);
    write_stream(folder_ / "records.tfrecord", options_.bytes, make_record);
    measure({"tokens", folder_ / "tokens.bin", [](const path& file) {
               return data::load_tokens({file.string()}, {.length = kLength, .vocabulary = 50257});
             }});
    measure({"tfrecord", folder_ / "records.tfrecord",
             [](const path& file) { return data::load_tfrecord({file.string()}, {.classes = 10}); }});
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

  void measure(const InputCase& input) {
    fmt::print(stderr, "bench input: {}\n", input.name);
    const double began = computed_seconds();
    const data::DatasetPtr dataset = input.open(input.file);
    report_.baseline[input.name + "_open_s"] = computed_seconds() - began;  // of records: their index is made
    const auto bytes = static_cast<double>(std::filesystem::file_size(input.file));
    std::vector<double> plain;
    std::vector<double> times[2];
    time_plain(input.file);  // into the page cache
    for (std::uint32_t round = 0; round < options_.rounds; ++round) {
      plain.push_back(time_plain(input.file));
      for (const bool shuffled : {false, true}) times[shuffled].push_back(time_samples(*dataset, shuffled));
    }
    const double raw = observe::median(plain);
    for (const bool shuffled : {false, true}) {
      const double time = observe::median(times[shuffled]);
      report_.tables[0].rows.push_back({{"source", input.name},
                                        {"order", shuffled ? "random" : "in order"},
                                        {"bytes", static_cast<std::uint64_t>(bytes)},
                                        {"samples_per_s", static_cast<double>(dataset->size()) / time},
                                        {"gbps", bytes / time / 1e9},
                                        {"plain_gbps", bytes / raw / 1e9},
                                        {"of_plain", raw / time}});
      if (!shuffled)
        report_.targets.push_back(
            {.what = input.name + " in order, of plain reading", .required = 0.7, .measured = raw / time});
    }
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
