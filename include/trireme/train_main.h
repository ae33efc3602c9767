#pragma once

// A program of one's own with every flag of `trireme train`.

#include <functional>
#include <string>
#include <vector>

#include "trireme/dataset.h"

namespace trireme {

/// Makes `name` known to `--data` of a program that calls `train_main`. `load` is called once in each process, when the
/// data is wanted; what it returns must be the same in all of them. Throws InvalidArgument if there is one already.
void register_data(const std::string& name, std::function<data::Split()> load);

/// Returns the names of the data registered, in alphabetical order.
std::vector<std::string> data_names();

/// Does what the command line says, as `trireme train` would, with the models, tasks and data that this program has
/// registered: `return trireme::train_main(argc, argv);` is the end of its main.
///
///   ./program --model mine --data mine -w 4 --epochs 5      trains; ./program --help tells all flags
///   ./program resume RUN                                    and eval, predict, generate: as those of `trireme`
///
/// It is the launcher, and starts itself again as the workers; servers and the master are those of the `trireme` that
/// lies beside it, or that PATH finds. `trireme resume`, `eval`, `predict` and `generate` of such a run start this
/// program; `status`, `stop` and `scale` work as usual. Under `trireme run` (or TF_CONFIG) it is a worker of that job,
/// and takes only flags that concern a worker.
///
/// Returns the exit status: 0; 2 if something is wrong with the command line, 1 for other failures, which are told on
/// standard error. Does not throw. Call it from the main thread, with all registered before.
int train_main(int argc, char** argv);

}  // namespace trireme
