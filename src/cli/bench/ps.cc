#include "cli/bench/ps.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <limits>
#include <memory>
#include <numeric>
#include <vector>

#include "trireme/deadline.h"

#include "base/error.h"
#include "base/file.h"
#include "base/random.h"
#include "cli/bench/process.h"
#include "net/secure/frame_mac.h"
#include "observe/bench_report.h"
#include "ps/client.h"
#include "ps/server.h"

namespace trireme::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kLargeBytes = 100 * kMiB;  // beyond any cache

/// Returns the largest resident size of a process so far.
std::uint64_t peak_resident_bytes(pid_t pid) {
  std::ifstream status(fmt::format("/proc/{}/status", pid));
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::stoull(line.substr(6)) * kKiB;
  }
  fail<IoError>("cannot read the memory of process {}", pid);
}

// ---- Measuring.

/// How long a row may take: at least `least` repetitions, then until `time` is over.
struct Effort {
  Clock::duration time = 400ms;
  std::size_t least = 5;
};

void to_json(observe::Json& json, const Effort& effort) {
  json = {{"time", effort.time.count()}, {"least", effort.least}};
}
void from_json(const observe::Json& json, Effort& effort) {
  effort = {Clock::duration(json.at("time").get<Clock::rep>()), json.at("least").get<std::size_t>()};
}

/// Median seconds of `work`.
template <typename Work>
double time_median(const Effort& effort, const Work& work) {
  std::vector<double> times;
  const auto began = Clock::now();
  for (auto now = began; times.size() < effort.least || now - began < effort.time;) {
    work();
    const auto after = Clock::now();
    times.push_back(seconds(after - now));
    now = after;
  }
  return observe::median(std::move(times));
}

double gigabytes_per_second(std::size_t bytes, double time) { return static_cast<double>(bytes) / time / 1e9; }

double memcpy_gbps(const Effort& effort) {
  const BenchProcess child("memcpy", [&](const BenchLink& link) {
    std::vector<std::byte> from(kLargeBytes, std::byte{1});
    std::vector<std::byte> to(kLargeBytes, std::byte{2});
    link.send(time_median(effort, [&] {
      std::memcpy(to.data(), from.data(), kLargeBytes);
      asm volatile("" : : "r"(to.data()) : "memory");  // keeps the compiler from dropping the copy
    }));
    link.receive();
  });
  return gigabytes_per_second(kLargeBytes, child.receive().get<double>());
}

/// What each end of a connection in the clear pays for the tags of its frames.
double frame_mac_gbps(const Effort& effort) {
  const BenchProcess child("the frames' MAC", [&](const BenchLink& link) {
    const std::vector<std::byte> memory(4 * kMiB, std::byte{1});
    net::FrameMac mac(Digest{});
    link.send(time_median(effort, [&] { mac.next(std::array{Bytes(memory)}); }));
    link.receive();
  });
  return gigabytes_per_second(4 * kMiB, child.receive().get<double>());
}

/// Receives streams of kLargeBytes, and answers each with one byte.
void receive_streams(const BenchLink& link) {
  const FileDescriptor listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{.sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
  socklen_t length = sizeof(address);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (::bind(listener.get(), generic, length) != 0 || ::listen(listener.get(), 1) != 0 ||
      ::getsockname(listener.get(), generic, &length) != 0) {
    fail_errno("cannot listen on 127.0.0.1");
  }
  link.send(address.sin_port);
  const FileDescriptor stream(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  std::vector<std::byte> memory(kLargeBytes);
  for (std::size_t filled = 0;;) {
    const auto got = ::recv(stream.get(), memory.data() + filled, kLargeBytes - filled, 0);
    if (got <= 0) return;
    filled += static_cast<std::size_t>(got);
    if (filled < kLargeBytes) continue;
    filled = 0;
    const std::byte done{1};
    if (::send(stream.get(), &done, 1, MSG_NOSIGNAL) != 1) return;
  }
}

void send_streams(const BenchLink& link, in_port_t port, const Effort& effort) {
  const FileDescriptor stream(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in address{
      .sin_family = AF_INET, .sin_port = port, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
  const int yes = 1;
  ::setsockopt(stream.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
  if (::connect(stream.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    fail_errno("cannot connect to 127.0.0.1");
  }
  const std::vector<std::byte> memory(kLargeBytes, std::byte{1});
  const auto send_once = [&] {
    for (std::size_t sent = 0; sent < kLargeBytes;) {
      const auto put = ::send(stream.get(), memory.data() + sent, std::min(kMiB, kLargeBytes - sent), MSG_NOSIGNAL);
      if (put < 0) fail_errno("cannot send to 127.0.0.1");
      sent += static_cast<std::size_t>(put);
    }
    std::byte done{};
    if (::recv(stream.get(), &done, 1, 0) != 1) fail_errno("the receiver of the raw stream is gone");
  };
  send_once();
  link.send(time_median(effort, send_once));
  link.receive();
}

double tcp_gbps(const Effort& effort) {
  const BenchProcess receiver("the receiver of the raw stream", receive_streams);
  const auto port = receiver.receive().get<in_port_t>();
  const BenchProcess sender("the sender of the raw stream",
                            [&](const BenchLink& link) { send_streams(link, port, effort); });
  return gigabytes_per_second(kLargeBytes, sender.receive().get<double>());
}

// ---- A job: servers and workers that exchange one model.

struct JobShape {
  net::Transport transport = net::Transport::kShm;
  std::uint32_t workers = 1;
  std::uint32_t servers = 1;
  std::uint32_t replicas = 1;
  std::uint32_t tables = 1;
  std::size_t table_bytes = 0;
  optim::Rule rule = optim::Rule::kSgd;

  std::size_t bytes() const { return tables * table_bytes; }
};

/// A server as `trireme serve` sets it up on this machine.
void serve(const BenchLink& link, Rank rank, const std::string& secret) {
  const ps::Server server(
      {.service = {.listener = {.name = "server", .secret = secret}, .threads = ps::default_service_threads()},
       .rank = rank,
       .compute_threads = ps::default_compute_threads()});
  link.send(nlohmann::json(server.address()));
  link.receive();  // until the parent is done
}

/// A worker that does what the parent says: {"op", "effort"} is prepared and, after a second message that all workers
/// get at the same time, measured.
void work(const BenchLink& link, const JobShape& job, Rank rank, const std::string& secret,
          const cluster::ViewInfo& view) {
  const std::uint64_t resident_before = ps::resident_bytes();
  net::EventLoop loop("worker");
  ps::Client client(loop, {.member = view.workers[rank].id,
                           .view = view,
                           .lanes = job.workers,
                           .secret = secret,
                           .transport = job.transport});
  std::vector<ps::TableSpec> specs;
  for (std::uint32_t i = 0; i < job.tables; ++i) {
    specs.push_back({.name = fmt::format("table{}", i), .elements = job.table_bytes / sizeof(float)});
  }
  client.open(std::move(specs),
              {.update = {.rule = job.rule}, .consistency = ps::parse_consistency("asp"), .placement = {}});
  std::ranges::fill(client.all_parameters(), 1.0f);
  if (rank == 0) client.assign();
  std::ranges::fill(client.all_gradients(), 0.5f);

  std::vector<std::uint32_t> tables(job.tables);
  std::iota(tables.begin(), tables.end(), 0u);
  StepInfo info{.lanes = {rank, 1}, .samples = 1, .lr = 1e-6};
  const auto push = [&](bool pull) {
    info.unit = info.step * job.workers + rank;
    client.push(tables, info, pull);
    client.finish();
    ++info.step;
  };
  client.pull();
  link.send({{"resident_before", resident_before}});
  while (const auto command = link.receive()) {
    const auto op = command->at("op").get<std::string>();
    const auto once = [&] { op == "pull" ? static_cast<void>(client.pull()) : push(op == "push+pull"); };
    time_median({.time = 0s, .least = 2}, once);
    link.send("ready");
    if (!link.receive()) return;
    link.send(time_median(command->at("effort").get<Effort>(), once));
  }
}

class Job {
 public:
  explicit Job(const JobShape& shape) : shape_(shape) {
    const std::string secret = random_hex(16);
    std::vector<net::Address> addresses;
    for (Rank rank = 0; rank < shape.servers; ++rank) {
      servers_.push_back(std::make_unique<BenchProcess>(
          fmt::format("server {}", rank), [&, rank](const BenchLink& link) { serve(link, rank, secret); }));
      addresses.push_back(nlohmann::json(servers_.back()->receive()).get<net::Address>());
    }
    const cluster::ViewInfo view = cluster::first_view(shape.workers, addresses, shape.replicas);
    for (Rank rank = 0; rank < shape.workers; ++rank) {
      workers_.push_back(std::make_unique<BenchProcess>(
          fmt::format("worker {}", rank), [&, rank](const BenchLink& link) { work(link, shape, rank, secret, view); }));
    }
    for (const auto& worker : workers_) {
      resident_before_.push_back(worker->receive().at("resident_before").get<std::uint64_t>());
    }
  }

  /// Median seconds of `op` at the slowest worker, all of them at work at the same time.
  double measure(const std::string& op, const Effort& effort) const {
    for (const auto& worker : workers_) worker->send({{"op", op}, {"effort", effort}});
    for (const auto& worker : workers_) worker->receive();
    for (const auto& worker : workers_) worker->send("go");
    double slowest = 0;
    for (const auto& worker : workers_) slowest = std::max(slowest, worker->receive().get<double>());
    return slowest;
  }

  std::uint64_t server_peak_bytes() const {
    std::uint64_t peak = 0;
    for (const auto& server : servers_) peak = std::max(peak, peak_resident_bytes(server->pid()));
    return peak;
  }

  /// Returns the largest growth of a worker since before it had parameters.
  std::uint64_t worker_growth_bytes() const {
    std::uint64_t most = 0;
    for (std::size_t i = 0; i < workers_.size(); ++i) {
      most = std::max(most, peak_resident_bytes(workers_[i]->pid()) - resident_before_[i]);
    }
    return most;
  }

 private:
  JobShape shape_;
  std::vector<std::unique_ptr<BenchProcess>> servers_;
  std::vector<std::unique_ptr<BenchProcess>> workers_;  // destroyed first
  std::vector<std::uint64_t> resident_before_;          // by worker
};

// ---- The whole.

struct Parties {
  std::uint32_t workers, servers, replicas;
};
struct Message {
  std::uint32_t tables;
  std::size_t table_bytes;
};
constexpr Parties kParties[] = {{1, 1, 1}, {2, 1, 1}, {2, 2, 1}, {2, 2, 2}};
constexpr Message kMessages[] = {{1, 4 * kKiB}, {1, kMiB}, {25, 4 * kMiB}};
constexpr const char* kOps[] = {"push", "pull", "push+pull"};

class ParameterServerBench {
 public:
  explicit ParameterServerBench(const BenchPsOptions& options) : speed_(options.quick ? 4 : 1) {}

  observe::BenchReport run() {
    report_.baseline = {{"memcpy_gbps", 0.0}, {"tcp_gbps", 0.0}, {"frame_mac_gbps", 0.0}};
    report_.tables.push_back({.key = "rows",
                              .title = "Operations: the slowest worker's median; GB/s: bytes of all workers in that "
                                       "time\n(push+pull moves its bytes both ways and counts them once; with more "
                                       "processes than cores they take turns,\nwhich a median does not show)",
                              .columns = {{"transport", "transport"},
                                          {"workers", "workers"},
                                          {"servers", "servers"},
                                          {"replicas", "copies"},
                                          {"bytes", "size", observe::as_size},
                                          {"op", "op"},
                                          {"median_us", "median us", observe::as_fixed},
                                          {"gbps", "GB/s", observe::as_fixed}},
                              .rows = {}});
    for (const auto transport : {net::Transport::kShm, net::Transport::kTcp, net::Transport::kTls}) {
      for (const auto [workers, servers, replicas] : kParties) {
        measure_baseline(transport);
        for (const auto [tables, bytes] : kMessages) {
          measure_speed({.transport = transport,
                         .workers = workers,
                         .servers = servers,
                         .replicas = replicas,
                         .tables = tables,
                         .table_bytes = bytes});
        }
      }
    }
    report_.tables.push_back({.key = "memory",
                              .title = "Memory at 100 MiB of parameters: peak resident; a server's per parameters + "
                                       "state + one copy per worker;\na worker's beyond parameters + gradients, per "
                                       "parameters",
                              .columns = {{"transport", "transport"},
                                          {"workers", "workers"},
                                          {"servers", "servers"},
                                          {"rule", "rule"},
                                          {"server_resident_bytes", "server", observe::as_size},
                                          {"server_expected_bytes", "expected", observe::as_size},
                                          {"server_ratio", "ratio", observe::as_fixed},
                                          {"worker_added_bytes", "worker added", observe::as_size},
                                          {"worker_ratio", "ratio", observe::as_fixed}},
                              .rows = {}});
    for (const optim::Rule rule : {optim::Rule::kSgd, optim::Rule::kAdam}) {
      for (const auto transport : {net::Transport::kShm, net::Transport::kTcp}) {
        for (const std::uint32_t workers : {1u, 2u}) {
          measure_memory(
              {.transport = transport, .workers = workers, .tables = 25, .table_bytes = 4 * kMiB, .rule = rule});
        }
      }
    }
    if (::isatty(STDERR_FILENO) == 1) fmt::print(stderr, "\r\33[K");
    judge();
    return std::move(report_);
  }

 private:
  Effort effort(Clock::duration time) const { return {.time = time / speed_, .least = 3}; }

  /// On a terminal one line that is overwritten, in a log many lines.
  static void progress(const std::string& what) {
    const bool terminal = ::isatty(STDERR_FILENO) == 1;
    fmt::print(stderr, "{}bench ps: {}{}", terminal ? "\r\33[K" : "", what, terminal ? "" : "\n");
  }

  std::vector<observe::Json>& rows() { return report_.tables[0].rows; }
  std::vector<observe::Json>& memory() { return report_.tables[1].rows; }

  /// What `transport` is compared with, measured beside it and more than once: others on this machine can only make it
  /// look slower than it is, so the best counts.
  void measure_baseline(net::Transport transport) {
    const auto take = [&](const char* name, double (*measured)(const Effort&)) {
      progress(fmt::format("baseline {}", name));
      observe::Json& best = report_.baseline[name];
      best = std::max(best.get<double>(), measured(effort(600ms)));
    };
    if (transport == net::Transport::kShm) take("memcpy_gbps", memcpy_gbps);
    if (transport == net::Transport::kTcp) take("tcp_gbps", tcp_gbps);
    if (transport == net::Transport::kTcp) take("frame_mac_gbps", frame_mac_gbps);
  }

  void measure_speed(const JobShape& shape) {
    progress(fmt::format("{} {}x{}, {} copies, {}", net::to_string(shape.transport), shape.workers, shape.servers,
                         shape.replicas, observe::as_size(shape.bytes())));
    const Job job(shape);
    for (const std::string op : kOps) {
      const double time = job.measure(op, effort(shape.bytes() > kMiB ? 800ms : 300ms));
      rows().push_back({{"transport", net::to_string(shape.transport)},
                        {"workers", shape.workers},
                        {"servers", shape.servers},
                        {"replicas", shape.replicas},
                        {"bytes", shape.bytes()},
                        {"op", op},
                        {"median_us", time * 1e6},
                        {"gbps", gigabytes_per_second(shape.workers * shape.bytes(), time)}});
    }
  }

  void measure_memory(const JobShape& shape) {
    progress(fmt::format("memory: {} {}x{}, {}", net::to_string(shape.transport), shape.workers, shape.servers,
                         optim::to_string(shape.rule)));
    const Job job(shape);
    for (const std::string op : kOps) job.measure(op, {.time = 0s, .least = 2});
    const auto parameters = static_cast<double>(shape.bytes());
    const double expected =
        parameters * static_cast<double>(1 + optim::state_floats({.rule = shape.rule}) + shape.workers);
    const auto server = static_cast<double>(job.server_peak_bytes());
    const double added = static_cast<double>(job.worker_growth_bytes()) - 2 * parameters;
    memory().push_back({{"transport", net::to_string(shape.transport)},
                        {"workers", shape.workers},
                        {"servers", shape.servers},
                        {"rule", optim::to_string(shape.rule)},
                        {"server_resident_bytes", server},
                        {"server_expected_bytes", expected},
                        {"server_ratio", server / expected},
                        {"worker_added_bytes", std::max(0.0, added)},
                        {"worker_ratio", std::max(0.0, added) / parameters}});
  }

  double figure(const std::string& transport, std::size_t bytes, const std::string& op, const std::string& key) {
    for (const observe::Json& row : rows()) {
      if (row["transport"] == transport && row["workers"] == 1 && row["servers"] == 1 && row["bytes"] == bytes &&
          row["op"] == op) {
        return row[key].get<double>();
      }
    }
    return std::numeric_limits<double>::quiet_NaN();
  }

  double worst_memory(const std::string& key) {
    double worst = 0;
    for (const observe::Json& row : memory()) worst = std::max(worst, row[key].get<double>());
    return worst;
  }

  void judge() {
    using enum observe::BenchTarget::Bound;
    const auto speed = [&](const std::string& transport, const std::string& op, const std::string& base, double least) {
      const double part = figure(transport, kLargeBytes, op, "gbps") / report_.baseline[base + "_gbps"].get<double>();
      report_.targets.push_back({.what = fmt::format("{} {} 25x4 MiB 1x1, of {}", transport, op, base),
                                 .bound = kAtLeast,
                                 .required = least,
                                 .measured = part});
    };
    speed("shm", "push", "memcpy", 0.4);
    speed("shm", "pull", "memcpy", 0.4);
    report_.targets.push_back({.what = "shm push+pull 4 KiB 1x1",
                               .bound = kAtMost,
                               .required = 30,
                               .measured = figure("shm", 4 * kKiB, "push+pull", "median_us"),
                               .unit = "us"});
    speed("tcp", "push", "tcp", 0.7);
    speed("tcp", "pull", "tcp", 0.7);
    report_.targets.push_back({.what = "memory of a server, of parameters + state + a copy per worker",
                               .bound = kAtMost,
                               .required = 1.15,
                               .measured = worst_memory("server_ratio")});
    report_.targets.push_back({.what = "memory a worker adds, of parameters",
                               .bound = kAtMost,
                               .required = 2,
                               .measured = worst_memory("worker_ratio")});
  }

  int speed_;
  observe::BenchReport report_;
};

}  // namespace

int bench_ps(const BenchPsOptions& options) {
  try {
    const observe::BenchReport report = ParameterServerBench(options).run();
    fmt::print("{}", options.json ? observe::to_object(report).dump() + "\n" : observe::to_text(report));
    return 0;
  } catch (const std::exception& problem) {
    fmt::print(stderr, "bench ps: {}\n", problem.what());
    return 1;
  }
}

}  // namespace trireme::cli
