#include "cli/model/init_model.h"

#include <algorithm>

#include "base/error.h"
#include "checkpoint/safetensors/convert.h"

namespace trireme::cli {
namespace {

namespace fs = std::filesystem;

bool is_inside(const fs::path& path, const fs::path& folder) {
  const fs::path below = fs::weakly_canonical(path).lexically_relative(fs::weakly_canonical(folder));
  return !below.empty() && *below.begin() != "..";
}

/// Returns the names of the tensors of the model at `place`, which has been located.
std::vector<std::string> names_in(const fs::path& place) {
  std::vector<std::string> names;
  if (fs::is_directory(place)) {
    const auto opened = checkpoint::Checkpoint::open(place);
    for (const auto& tensor : opened.tensors()) {
      if (const auto name = checkpoint::plain_name(tensor.name)) names.push_back(*name);
    }
  } else {
    const auto model = checkpoint::read_model(std::make_shared<const checkpoint::SafetensorsFile>(place));
    for (const auto& tensor : model.tensors) names.push_back(tensor.name);
  }
  return names;
}

std::string settle(TrainFlags& flags) {
  const fs::path place = fs::absolute(checkpoint::locate_model(flags.init)).lexically_normal();
  if (flags.overwrite && !flags.out.empty() && is_inside(place, flags.out)) {
    fail<InvalidArgument>("it is in --out {}, which --overwrite replaces; choose another folder with --out", flags.out);
  }
  const std::vector<std::string> names = names_in(place);
  const auto taken =
      std::ranges::count_if(names, [&](const std::string& name) { return name.starts_with(flags.init_prefix); });
  if (taken == 0) {
    fail<InvalidArgument>("no tensor has the prefix '{}' of --init-prefix: the first of {} is '{}'", flags.init_prefix,
                          names.size(), names.empty() ? "" : names.front());
  }
  flags.init = place.string();
  return flags.init_prefix.empty() ? fmt::format("starting from {}: {} tensors", flags.init, taken)
                                   : fmt::format("starting from {}: {} of its {} tensors, those under '{}'", flags.init,
                                                 taken, names.size(), flags.init_prefix);
}

}  // namespace

std::string settle_init(TrainFlags& flags) {
  if (flags.init.empty()) {
    if (flags.init_prefix.empty()) return "";
    fail<InvalidArgument>("--init-prefix {}: of which file? Give it with --init", flags.init_prefix);
  }
  const std::string given = flags.init;
  try {
    return settle(flags);
  } catch (const Error& problem) {  // damaged or not readable, too: nothing has been started
    fail<InvalidArgument>("--init {}: {}", given, problem.what());
  }
}

}  // namespace trireme::cli
