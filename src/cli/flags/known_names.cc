#include "cli/flags/known_names.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include <fmt/ranges.h>

#include "trireme/train_main.h"

#include "base/error.h"
#include "base/settings.h"
#include "base/suggest.h"
#include "cli/model/model_rules.h"
#include "data/task_rules.h"

namespace trireme::cli {
namespace {

OwnNames& names() {
  static OwnNames own;
  return own;
}

std::map<std::string, std::function<data::Split()>>& data_registry() {
  static std::map<std::string, std::function<data::Split()>> sets;
  return sets;
}

std::vector<std::string> joined(std::vector<std::string> ready, const std::vector<std::string>& own) {
  ready.insert(ready.end(), own.begin(), own.end());
  return ready;
}

bool is_one_of(const std::string& value, const std::vector<std::string>& all) {
  return std::ranges::find(all, value) != all.end();
}

}  // namespace

void set_own_names(OwnNames own) { names() = std::move(own); }

const OwnNames& own_names() { return names(); }

std::vector<std::string> model_choices() { return joined(known_models(), names().models); }

std::vector<std::string> task_choices() { return joined(data::ready_tasks(), names().tasks); }

bool is_script(const std::string& model) { return model.ends_with(".pt") || model.ends_with(".pth"); }

std::function<data::Split()> own_data(const std::string& name) {
  const auto found = data_registry().find(name);
  return found == data_registry().end() ? nullptr : found->second;
}

void check_model(const std::string& flag, const std::string& value) {
  if (is_script(value)) {
    if (std::filesystem::is_regular_file(value)) return;
    fail<InvalidArgument>("{} {}: there is no such file of TorchScript", flag, value);
  }
  const std::vector<std::string> models = model_choices();
  if (is_one_of(value, models)) return;
  if (const Settings settings = Settings::parse(value); is_one_of(settings.name, models)) {
    return settings.check_keys(model_settings(settings.name));
  }
  fail<InvalidArgument>(
      "there is no model '{}'{}: use {}, a .pt file of TorchScript, or a program of your own (see "
      "examples/own_model.cc)",
      value, did_you_mean(value, models), fmt::join(models, ", "));
}

void check_task(const std::string& flag, const std::string& value) {
  const std::vector<std::string> tasks = task_choices();
  if (value.empty() || is_one_of(value, tasks)) return;
  fail<InvalidArgument>("{} {}{}: use {}", flag, value, did_you_mean(value, tasks), fmt::join(tasks, ", "));
}

}  // namespace trireme::cli

namespace trireme {

void register_data(const std::string& name, std::function<data::Split()> load) {
  if (!cli::data_registry().emplace(name, std::move(load)).second) {
    fail<InvalidArgument>("there are data '{}' already: give yours another name", name);
  }
}

std::vector<std::string> data_names() {
  std::vector<std::string> all;
  for (const auto& [name, load] : cli::data_registry()) all.push_back(name);
  return all;
}

}  // namespace trireme
