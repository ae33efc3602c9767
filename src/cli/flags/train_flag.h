#pragma once

#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/flag.h"
#include "cli/flags/train_flags.h"
#include "launch/job/job_runner.h"

namespace trireme::cli {

/// What there is to say of a flag besides its name and help.
template <class Value>
struct TrainFlagTraits {
  bool show_default = false;              ///< in the help
  std::vector<std::string> choices = {};  ///< see Flag
  Limits limits = {};                     ///< of a number
  bool for_workers = false;               ///< workers read it, though it sets none of their options
  bool of_one_strategy = false;           ///< a run that continues with another strategy does not inherit it
  bool of_one_launch = false;             ///< not part of what is trained: a run that continues never inherits it
  bool of_checkpoints = false;            ///< they fit no other value: a run that continues cannot change it
  Value (*unless_given)(const TrainFlags& flags) = nullptr;  ///< its default, where that depends on other flags
  void (*check)(const std::string& name, const Value& value) = nullptr;  ///< throws InvalidArgument
  void (*set_job)(launch::JobSpec& job, const TrainFlags& flags) = nullptr;
};

/// For flags that set no option of a worker.
struct NoOption {};

/// `set_option(worker, flags)` sets what it means to a worker: fields of `worker.options`, the TrainOptions. It is a
/// generic lambda, called by worker_options.cc only, because the command itself does not include LibTorch.
template <class Value, class SetOption>
struct TrainFlag : Flag<TrainFlags, Value> {
  TrainFlagTraits<Value> traits;
  SetOption set_option;

  static constexpr bool kSetsOption = !std::is_same_v<SetOption, NoOption>;
  bool for_workers() const { return kSetsOption || traits.for_workers; }
};

template <class Value, class SetOption = NoOption>
TrainFlag<Value, SetOption> flag(const char* names, Value TrainFlags::*member, const char* help,
                                 const TrainFlagTraits<std::type_identity_t<Value>>& traits = {},
                                 SetOption set_option = {}) {
  return {{.names = names,
           .member = member,
           .help = help,
           .show_default = traits.show_default,
           .choices = traits.choices,
           .group = {},
           .limits = traits.limits},
          traits,
          set_option};
}

/// Returns the flags as a tuple; `name` is their heading in the help.
template <class... Flags>
auto flag_group(const char* name, Flags... flags) {
  ((flags.group = name), ...);
  return std::tuple(std::move(flags)...);
}

}  // namespace trireme::cli
