#include "cli/flags/log_level.h"

#include <cstdlib>

namespace trireme::cli {

LogLevel chosen_log_level(const std::string& flag) {
  if (!flag.empty()) return parse_log_level(kLogLevelFlag, flag);
  const char* variable = std::getenv(kLogLevelVariable);
  return variable == nullptr || *variable == 0 ? LogLevel::kInfo : parse_log_level(kLogLevelVariable, variable);
}

}  // namespace trireme::cli
