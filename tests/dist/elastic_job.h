#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "trireme/job.h"

#include "base/error.h"
#include "cluster/protocol.h"
#include "job/job_session.h"
#include "master/master.h"
#include "net/connection.h"
#include "tests/support/eventually.h"
#include "tests/support/temp_folder.h"

namespace trireme {

/// Ends a worker as SIGKILL does: thrown through its whole program, which tells nobody, since it is no std::exception.
struct Killed {};

/// A job without servers whose workers are threads of this process; a worker that is killed is restarted, as the
/// launcher does it.
class ElasticJob {
 public:
  ElasticJob(std::uint32_t workers, std::filesystem::path run) : workers_(workers), run_(std::move(run)) {}

  /// One process of worker `slot` after the other runs `program`, until one ends by itself. For `restart` false: until
  /// the first one is killed. Blocks.
  void run_worker(std::uint32_t slot, const std::function<void(std::unique_ptr<Job>)>& program, bool restart = true) {
    for (;;) {
      try {
        return program(join(slot));
      } catch (const Killed&) {
        ++killed_;
        if (!restart) return;
      }
    }
  }

  /// Runs all workers of the start at the same time; the first exception comes out when all have ended.
  void run(const std::function<void(std::unique_ptr<Job>)>& program, bool restart = true) {
    std::vector<std::exception_ptr> problems(workers_);
    {
      std::vector<std::jthread> threads;
      for (std::uint32_t slot = 0; slot < workers_; ++slot) {
        threads.emplace_back([&, slot] {
          try {
            run_worker(slot, program, restart);
          } catch (...) {
            problems[slot] = std::current_exception();
          }
        });
      }
    }
    for (const std::exception_ptr& problem : problems) {
      if (problem) std::rethrow_exception(problem);
    }
  }

  /// As `trireme scale` does it.
  void scale(std::uint32_t workers) {
    net::EventLoop loop("scale", 1);
    net::Connection::open(loop, master_.address(), {.secret = kSecret, .peer_name = "the master"})
        ->call<cluster::Done>(cluster::kScale, 0, cluster::ScaleRequest{.workers = workers}, Deadline::in(kPatience),
                              "the request to scale");
  }

  /// As `trireme checkpoint` does it.
  void checkpoint() { master_.checkpoint("asked by a test"); }

  cluster::JobStatus status() const { return master_.status(); }

  std::uint32_t killed() const { return killed_; }

 private:
  /// Waits until the master has noticed the end of the process before.
  std::unique_ptr<Job> join(std::uint32_t slot) {
    std::unique_ptr<Job> job;
    std::string refused;
    const bool joined = eventually([&] {
      try {
        job = std::make_unique<Job>(
            std::make_unique<JobSession>(cluster::JobEnvironment{.rank = slot,
                                                                 .workers = std::max(workers_, slot + 1),
                                                                 .initial_workers = workers_,
                                                                 .servers = 0,
                                                                 .master = master_.address(),
                                                                 .secret = kSecret,
                                                                 .run_folder = run_.string()}));
      } catch (const InvalidArgument& problem) {
        refused = problem.what();
      }
      return job != nullptr;
    });
    if (!joined) fail<Timeout>("worker {} cannot join: {}", slot, refused);
    return job;
  }

  static inline const std::string kSecret = "the secret of these tests";
  const std::uint32_t workers_;
  const std::filesystem::path run_;
  master::Master master_{{.service = {.listener = {.name = "master", .secret = kSecret}},
                          .shape = {.workers = workers_, .servers = 0},
                          .hang_after = std::chrono::seconds(20)}};  // sanitizers are slow
  std::atomic<std::uint32_t> killed_{0};
};

}  // namespace trireme
