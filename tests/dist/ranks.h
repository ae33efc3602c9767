#pragma once

#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "trireme/trainer.h"

#include "job/job_session.h"
#include "master/master.h"
#include "tests/support/temp_folder.h"
#include "tests/support/thread_server.h"

namespace trireme {

/// A job whose workers are threads of this process, each with a `Job` of its own, as are its servers.
struct RanksOptions {
  std::uint32_t workers = 2;
  net::Transport transport = net::Transport::kAuto;
  std::uint32_t servers = 0;
  std::filesystem::path folder = {};  ///< of the run; empty: one that goes away with it
};

/// Runs `body` as every worker at the same time; the first exception comes out when all have ended.
inline void run_ranks(const RanksOptions& options, const std::function<void(Job& job)>& body) {
  const std::string secret = "the secret of these tests";
  const TempFolder temporary;
  const std::filesystem::path folder = options.folder.empty() ? temporary.path() : options.folder;
  const master::Master master({.service = {.listener = {.name = "master", .secret = secret}},
                               .shape = {.workers = options.workers, .servers = options.servers},
                               .hang_after = std::chrono::seconds(20)});  // sanitizers are slow
  std::vector<std::unique_ptr<ps::ThreadServer>> servers;
  for (std::uint32_t slot = 0; slot < options.servers; ++slot) {
    servers.push_back(std::make_unique<ps::ThreadServer>(master.address(), slot, secret));
  }
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
                                                                   .run_folder = folder.string()}));
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
