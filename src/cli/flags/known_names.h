#pragma once

#include <functional>
#include <string>
#include <vector>

#include "trireme/dataset.h"

namespace trireme::cli {

// The names that --model, --task and --data take: what comes with Trireme, and what a program that calls train_main
// brings. The launcher asks before anything starts.

/// What a program has registered of LibTorch's side. Set once, before flags are read; this process's from then on.
struct OwnNames {
  std::vector<std::string> models = {};
  std::vector<std::string> tasks = {};
};
void set_own_names(OwnNames names);
const OwnNames& own_names();

/// All names there are.
std::vector<std::string> model_choices();
std::vector<std::string> task_choices();

/// Whether `model` is a file of TorchScript, by its name.
bool is_script(const std::string& model);

/// Returns what loads the data that was registered as `name`; null if there is none.
std::function<data::Split()> own_data(const std::string& name);

/// Throw InvalidArgument, with what was probably meant, if there is none of this name.
void check_model(const std::string& flag, const std::string& value);
void check_task(const std::string& flag, const std::string& value);

}  // namespace trireme::cli
