#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "trireme/trainer.h"

#include "base/mutex.h"
#include "cluster/membership.h"
#include "job/job_session.h"
#include "master/master.h"
#include "net/event_loop.h"
#include "ps/server.h"
#include "tests/support/temp_folder.h"

namespace trireme {

/// A job whose workers are threads of this process, each with a `Job` of its own, and perhaps a server.
struct RanksOptions {
  std::uint32_t workers = 2;
  net::Transport transport = net::Transport::kAuto;
  std::uint32_t servers = 0;  ///< or 1
};

/// A server of such a job.
class ServerThread {
 public:
  ServerThread(const net::Address& master, const std::string& secret)
      : server_({.service = {.listener = {.name = "server", .secret = secret}}}),
        thread_([this, master, secret](const std::stop_token& stop) { serve(master, secret, stop); }) {}

 private:
  void serve(const net::Address& master, const std::string& secret, const std::stop_token& stop) {
    cluster::Membership member(
        loop_, {.role = cluster::Role::kServer, .master = master, .own_address = server_.address(), .secret = secret},
        {});
    const cluster::ViewInfo view = member.view();
    server_.enter(view, view.servers[member.rank()].id);
    Mutex mutex;
    const MutexLock lock(mutex);
    StoppableCondition().wait(mutex, stop, [] { return false; });
  }

  ps::Server server_;
  net::EventLoop loop_{"server-net"};
  std::jthread thread_;
};

/// Runs `body` as every worker at the same time; the first exception comes out when all have ended.
inline void run_ranks(const RanksOptions& options, const std::function<void(Job& job)>& body) {
  const std::string secret = "the secret of these tests";
  const TempFolder folder;
  const master::Master master({.service = {.listener = {.name = "master", .secret = secret}},
                               .shape = {.workers = options.workers, .servers = options.servers},
                               .hang_after = std::chrono::seconds(20)});  // sanitizers are slow
  std::optional<ServerThread> server;
  if (options.servers > 0) server.emplace(master.address(), secret);
  std::vector<std::exception_ptr> problems(options.workers);
  {
    std::vector<std::jthread> threads;
    for (Rank rank = 0; rank < options.workers; ++rank) {
      threads.emplace_back([&, rank] {
        try {
          const auto job = std::make_unique<Job>(
              std::make_unique<JobSession>(cluster::JobEnvironment{.rank = rank,
                                                                   .workers = options.workers,
                                                                   .servers = options.servers,
                                                                   .master = master.address(),
                                                                   .secret = secret,
                                                                   .transport = options.transport,
                                                                   .run_folder = folder.path().string()}));
          body(*job);
        } catch (...) {
          problems[rank] = std::current_exception();
        }
      });
    }
  }
  for (const std::exception_ptr& problem : problems) {
    if (problem) std::rethrow_exception(problem);
  }
}

/// What training with some number of workers gave: the result and the model of each.
struct Trained {
  TrainResult result;         ///< the chief's
  std::vector<Model> models;  ///< by rank
};

/// Trains a model that `make` makes, on every rank. Threads share torch's random generator, so `make` is called before
/// they start, and models that draw random numbers in training have no place here.
inline Trained train_ranks(const RanksOptions& options, const std::function<Model()>& make,
                           const TrainOptions& training, const std::shared_ptr<const data::Dataset>& train,
                           const std::shared_ptr<const data::Dataset>& test = nullptr) {
  Trained trained;
  for (Rank rank = 0; rank < options.workers; ++rank) trained.models.push_back(make());
  run_ranks(options, [&](Job& job) {
    const TrainResult result = Trainer(job, trained.models[job.rank()], training).fit(train, test);
    if (job.chief()) trained.result = result;
  });
  return trained;
}

}  // namespace trireme
