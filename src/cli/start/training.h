#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/flags/train_flags.h"
#include "cli/remote/remote_start.h"
#include "cli/start/foreign_start.h"
#include "observe/run_folder.h"

namespace trireme::cli {

inline constexpr const char* kTrainCommand = "trireme train";

/// The program whose processes are the workers: trireme-worker, or one that calls train_main.
struct WorkerProgram {
  std::vector<std::string> argv = {};   ///< before what a worker is told; empty = trireme-worker
  std::string command = kTrainCommand;  ///< how a person starts a training of it
  std::string path = {};                ///< of one that calls train_main, for `trireme resume`; else empty

  /// Throws InvalidArgument if a model or a task of the program's own does not fit the samples. Null: there is none.
  std::function<void(const TrainFlags& flags, const data::Schema& samples)> check = {};
};

/// Returns the words that start a worker: the program's, then `words`. `backend`: see --backend. Throws InvalidArgument
/// if there is no program.
std::vector<std::string> worker_words(const WorkerProgram& program, const std::vector<std::string>& words,
                                      const std::string& backend = "auto");

/// Returns the data that the flags name, once the task and the model fit it. Throws InvalidArgument, naming the flag or
/// the field, if something is wrong with any of them.
data::Opened open_checked(const TrainFlags& flags, const WorkerProgram& program);

/// Trains in `existing`, the folder of a run that continues, or in a new one that the flags name; `config` becomes its
/// config.toml, once nothing is left that could be wrong with the flags. A run that continues does so from the
/// checkpoint of step `from`, if that is given. `remote`: its processes run on other hosts; null = here. Returns the
/// exit status. Throws InvalidArgument, IoError, Corrupt.
int train(TrainFlags flags, const std::string& config, const WorkerProgram& program,
          std::optional<observe::RunFolder> existing = {}, std::optional<Step> from = {},
          RemoteStart* remote = nullptr);

/// The same where another launcher has started this command, as one of several: the one that leads makes the folder and
/// tells the result, the others start their workers and servers. A run that the launcher has started again continues.
int train_part(TrainFlags flags, const std::string& config, const WorkerProgram& program, const ForeignStart& start,
               std::optional<observe::RunFolder> existing = {});

}  // namespace trireme::cli
