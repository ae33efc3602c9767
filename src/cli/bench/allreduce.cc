#include "cli/bench/allreduce.h"

#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <sstream>

#include <fmt/ranges.h>

#include "base/error.h"
#include "base/random.h"
#include "bench/peers/large_buffer.h"
#include "bench/peers/measure.h"
#include "bench/peers/mpirun_flags.h"
#include "cli/bench/process.h"
#include "collective/communicator.h"
#include "launch/guard.h"
#include "launch/process.h"
#include "observe/bench_report.h"

namespace trireme::cli {
namespace {

/// Trireme's side of the comparison, in one rank.
class TriremeAllReducer final : public bench::AllReducer {
 public:
  TriremeAllReducer(collective::Communicator& ranks, bool shared) : ranks_(ranks), shared_(shared) {}

  unsigned rank() const override { return ranks_.rank(); }
  unsigned ranks() const override { return ranks_.size(); }

  std::span<float> prepare(std::size_t elements) override {
    if (shared_) {
      memory_ = ranks_.allocate(elements * sizeof(float));
      buffer_ = {reinterpret_cast<float*>(memory_.get()), elements};
      std::ranges::fill(buffer_, 0.0f);
    } else {
      private_ = bench::LargeBuffer(elements);
      buffer_ = private_.span();
    }
    return buffer_;
  }

  void all_reduce() override { ranks_.run(collective::all_reduce(buffer_)); }
  void barrier() override { ranks_.run(collective::barrier()); }
  double max(double value) override {
    ranks_.run(collective::all_reduce(std::span(&value, 1), {.op = collective::ReduceOp::kMax}));
    return value;
  }

 private:
  collective::Communicator& ranks_;
  bool shared_;
  bench::LargeBuffer private_;
  std::shared_ptr<std::byte> memory_;
  std::span<float> buffer_;
};

class AllReduceBench {
 public:
  explicit AllReduceBench(const BenchAllReduceOptions& options) : options_(options) {}

  observe::BenchReport run() {
    const Peers peers = options_.peers ? find_peers() : Peers{};
    // In turns: how fast two cores exchange a cache line changes within seconds on virtual machines.
    for (unsigned round = 1; round <= options_.rounds; ++round) {
      for (const unsigned ranks : options_.ranks) {
        fmt::print(stderr, "round {} of {}, {} ranks\n", round, options_.rounds, ranks);
        for (const std::string& transport : options_.transports) {
          run_trireme(ranks, transport, false);
          if (transport == "shm") run_trireme(ranks, transport, true);
          if (peers.openmpi && transport != "tls") run_openmpi(ranks, transport, "best");
          if (peers.openmpi && transport == "shm") run_openmpi(ranks, transport, "default");
        }
        if (peers.gloo) run_gloo(ranks);
      }
    }
    observe::BenchReport report;
    report.tables.push_back(all_rows());
    if (!options_.peers) return report;
    report.tables.push_back(ratios());
    report.targets = targets();
    return report;
  }

 private:
  struct Peers {
    bool openmpi = false;
    bool gloo = false;
  };

  /// Returns which peers can be measured, and says which cannot. Throws InvalidArgument if there is none.
  static Peers find_peers() {
    const Peers peers{.openmpi = std::filesystem::exists(program("allreduce_openmpi")),
                      .gloo = std::filesystem::exists(program("allreduce_gloo"))};
    constexpr auto kHow = "install {}, then configure and build again";
    const std::string openmpi = fmt::format(kHow, "libopenmpi-dev openmpi-bin");
    const std::string gloo = fmt::format(kHow, "libgloo-dev");
    if (!peers.openmpi && !peers.gloo) {
      fail<InvalidArgument>("--peers: neither is here. OpenMPI: {}. gloo: {}", openmpi, gloo);
    }
    if (!peers.openmpi) fmt::print(stderr, "without OpenMPI, which is not here: {}\n", openmpi);
    if (!peers.gloo) fmt::print(stderr, "without gloo, which is not here: {}\n", gloo);
    return peers;
  }

  void run_trireme(unsigned ranks, const std::string& transport, bool shared) {
    const std::string impl = shared ? "trireme" : transport == "shm" ? "trireme-private" : "trireme";
    const std::string secret = random_hex(32);
    std::vector<std::unique_ptr<BenchProcess>> processes;
    for (unsigned rank = 0; rank < ranks; ++rank) {
      processes.push_back(std::make_unique<BenchProcess>(fmt::format("rank {}", rank), [&](const BenchLink& link) {
        collective::Endpoint endpoint({.secret = secret});
        link.send(observe::Json(nlohmann::json(endpoint.address())));
        const auto members = link.receive();
        if (!members) return;
        collective::Communicator communicator(endpoint,
                                              {.rank = rank,
                                               .members = nlohmann::json(*members).get<std::vector<net::Address>>(),
                                               .transport = net::parse_transport(transport)});
        TriremeAllReducer library(communicator, shared);
        std::ostringstream rows;
        bench::measure_sizes(library, impl, transport, options_.bytes, rows);
        link.send(rows.str());
        link.receive();
      }));
    }
    nlohmann::json members = nlohmann::json::array();
    for (const auto& process : processes) members.push_back(nlohmann::json(process->receive()));
    for (const auto& process : processes) process->send(observe::Json(members));
    for (const auto& process : processes) add_rows(process->receive().get<std::string>());
  }

  void run_openmpi(unsigned ranks, const std::string& transport, const std::string& settings) {
    std::vector<std::string> argv{"mpirun"};
    for (std::string& flag : bench::mpirun_flags(ranks, transport)) argv.push_back(std::move(flag));
    argv.insert(argv.end(), {"-n", std::to_string(ranks), program("allreduce_openmpi"), "--transport", transport,
                             "--settings", settings, "--bytes", sizes()});
    add_rows(run_programs("openmpi", {argv}), settings == "best" ? "openmpi" : "openmpi-default");
  }

  void run_gloo(unsigned ranks) {
    const Folder store;
    std::vector<std::vector<std::string>> commands;
    for (unsigned rank = 0; rank < ranks; ++rank) {
      commands.push_back({program("allreduce_gloo"), "--rank", std::to_string(rank), "--ranks", std::to_string(ranks),
                          "--store", store.path.string(), "--bytes", sizes()});
    }
    add_rows(run_programs("gloo", commands));
  }

  /// A folder of our own, removed with everything in it.
  struct Folder {
    Folder() : path(std::filesystem::temp_directory_path() / ("trireme-bench-" + random_hex(8))) {
      std::filesystem::create_directory(path);
    }
    ~Folder() {
      std::error_code ignored;
      std::filesystem::remove_all(path, ignored);
    }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;
    std::filesystem::path path;
  };

  /// Runs `commands` at the same time; returns what they wrote.
  std::string run_programs(const std::string& name, const std::vector<std::vector<std::string>>& commands) {
    const Folder folder;
    std::vector<pid_t> pids;
    for (const auto& argv : commands) {
      pids.push_back(launch::spawn({.name = name, .argv = argv, .log = folder.path / "out"}, guard_.descriptor()));
    }
    bool failed = false;
    for (const pid_t pid : pids) {
      int status = 0;
      ::waitpid(pid, &status, 0);
      failed = failed || !WIFEXITED(status) || WEXITSTATUS(status) != 0;
    }
    std::ifstream file(folder.path / "out");
    std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    if (failed) fail<Error>("{} failed:\n{}", name, text);
    return text;
  }

  /// The path of a peer's program, which lies beside ours.
  static std::string program(const std::string& name) {
    return (std::filesystem::read_symlink("/proc/self/exe").parent_path() / name).string();
  }

  std::string sizes() const { return fmt::format("{}", fmt::join(options_.bytes, ",")); }

  /// Keeps each row, or the better one if it was measured before. `impl` replaces the name of the implementation.
  void add_rows(const std::string& text, const std::string& impl = "") {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      if (!line.starts_with("{")) continue;
      observe::Json row = observe::Json::parse(line);
      if (!impl.empty()) row["impl"] = impl;
      const auto same = [&](const observe::Json& other) {
        for (const char* key : {"impl", "transport", "ranks", "bytes"}) {
          if (other.at(key) != row.at(key)) return false;
        }
        return true;
      };
      const auto known = std::ranges::find_if(rows_, same);
      if (known == rows_.end()) {
        rows_.push_back(std::move(row));
      } else if (row.at("median_us") < known->at("median_us")) {
        *known = std::move(row);
      }
    }
  }

  observe::BenchTable all_rows() const {
    return {.key = "rows",
            .title =
                "all-reduce, float32 sum in place (trireme: in memory from Communicator::allocate; trireme-private: "
                "in any memory; openmpi: best settings for each size; openmpi-default: as installed)",
            .columns = {{"impl", "implementation"},
                        {"transport", "over"},
                        {"ranks", "ranks"},
                        {"bytes", "size", observe::as_size},
                        {"median_us", "median us", observe::as_fixed},
                        {"algbw_gbps", "GB/s", observe::as_fixed},
                        {"busbw_gbps", "bus GB/s", observe::as_fixed}},
            .rows = rows_};
  }

  double time(const std::string& impl, const std::string& transport, unsigned ranks, std::size_t bytes) const {
    for (const observe::Json& row : rows_) {
      if (row.at("impl") == impl && row.at("transport") == transport && row.at("ranks") == ranks &&
          row.at("bytes") == bytes) {
        return row.at("median_us").get<double>();
      }
    }
    return std::numeric_limits<double>::quiet_NaN();
  }

  /// How many times as fast as the peer; NaN where one of them was not measured.
  double ratio(const std::string& impl, const std::string& transport, const std::string& peer,
               const std::string& peer_transport, unsigned ranks, std::size_t bytes) const {
    return time(peer, peer_transport, ranks, bytes) / time(impl, transport, ranks, bytes);
  }

  observe::BenchTable ratios() const {
    observe::BenchTable table{.key = "ratios",
                              .title = "how many times as fast as the peer over the same transport (gloo has TCP only)",
                              .columns = {{"impl", "implementation"},
                                          {"transport", "over"},
                                          {"ranks", "ranks"},
                                          {"bytes", "size", observe::as_size},
                                          {"openmpi", "x OpenMPI", observe::as_fixed},
                                          {"openmpi_default", "x as installed", observe::as_fixed},
                                          {"gloo", "x gloo", observe::as_fixed}},
                              .rows = {}};
    for (const observe::Json& row : rows_) {
      const auto impl = row.at("impl").get<std::string>();
      if (!impl.starts_with("trireme")) continue;
      const auto transport = row.at("transport").get<std::string>();
      const auto ranks = row.at("ranks").get<unsigned>();
      const auto bytes = row.at("bytes").get<std::size_t>();
      table.rows.push_back({{"impl", impl},
                            {"transport", transport},
                            {"ranks", ranks},
                            {"bytes", bytes},
                            {"openmpi", ratio(impl, transport, "openmpi", transport, ranks, bytes)},
                            {"openmpi_default", ratio(impl, transport, "openmpi-default", transport, ranks, bytes)},
                            {"gloo", ratio(impl, transport, "gloo", "tcp", ranks, bytes)}});
    }
    return table;
  }

  /// Our targets.
  std::vector<observe::BenchTarget> targets() const {
    std::vector<observe::BenchTarget> result;
    const auto promise = [&](double required, unsigned ranks, std::size_t bytes, const std::string& transport,
                             const std::string& peer) {
      const double measured = ratio("trireme", transport, peer, peer == "gloo" ? "tcp" : transport, ranks, bytes);
      if (measured != measured) return;  // was not asked for
      result.push_back(
          {.what = fmt::format("{} ranks, {} over {}: x {}", ranks, observe::as_size(bytes), transport, peer),
           .bound = observe::BenchTarget::Bound::kAtLeast,
           .required = required,
           .measured = measured});
    };
    promise(1, 2, 4 * kKiB, "shm", "openmpi");
    promise(1.5, 2, kMiB, "shm", "openmpi");
    for (const std::size_t bytes : {16 * kMiB, 100 * kMiB}) promise(2, 2, bytes, "shm", "openmpi");
    for (const std::size_t bytes : {kMiB, 16 * kMiB, 100 * kMiB}) promise(4, 2, bytes, "shm", "gloo");
    for (const std::size_t bytes : options_.bytes) promise(1, 4, bytes, "shm", "openmpi");
    for (const unsigned ranks : {2u, 4u}) {
      for (const std::size_t bytes : options_.bytes) promise(1, ranks, bytes, "tcp", "gloo");
    }
    return result;
  }

  const BenchAllReduceOptions& options_;
  launch::Guard guard_;
  std::vector<observe::Json> rows_;
};

}  // namespace

int bench_allreduce(const BenchAllReduceOptions& options) {
  try {
    const observe::BenchReport report = AllReduceBench(options).run();
    fmt::print("{}", options.json ? observe::to_object(report).dump() + "\n" : observe::to_text(report));
    return 0;
  } catch (const std::exception& problem) {
    fmt::print(stderr, "bench allreduce: {}\n", problem.what());
    return 1;
  }
}

}  // namespace trireme::cli
