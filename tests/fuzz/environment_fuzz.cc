// The environment of a process: lines of NAME=value.
#include <map>

#include "cluster/environment.h"
#include "tests/fuzz/fuzz.h"

namespace trireme::cluster {
namespace {

std::map<std::string, std::string, std::less<>> variables(std::string_view text) {
  std::map<std::string, std::string, std::less<>> result;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const std::size_t equals = std::min(line.find('='), line.size());
    result.emplace(line.substr(0, equals), line.substr(std::min(equals + 1, line.size())));
  }
  result.erase("TRIREME_SECRET_FILE");  // would be opened: any file of this machine
  return result;
}

}  // namespace
}  // namespace trireme::cluster

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace trireme;
  const auto variables = cluster::variables(fuzz::text_of(data, size));
  fuzz::returns_or_refuses([&] {
    const auto place = cluster::read_environment([&](const char* name) {
      const auto found = variables.find(name);
      return found == variables.end() ? nullptr : found->second.c_str();
    });
    if (!place) return;
    const std::uint32_t count = place->role == cluster::Role::kWorker ? place->workers : place->servers;
    fuzz::require(place->rank < count, "a rank beyond the job's size was accepted");
    fuzz::require(!place->secret.empty(), "a job without a secret was accepted");
  });
  return 0;
}
