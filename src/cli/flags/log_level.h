#pragma once

#include <string>

#include "base/log.h"

namespace trireme::cli {

inline constexpr const char* kLogLevelFlag = "--log-level";
inline constexpr const char* kLogLevelHelp =
    "least level that processes log: debug, info, warning or error; TRIREME_LOG_LEVEL, or info, unless given";

/// Returns the level that `flag`, the value of --log-level, asks for; if that is empty, the one in TRIREME_LOG_LEVEL;
/// else info. Throws InvalidArgument that names which of them is wrong.
LogLevel chosen_log_level(const std::string& flag);

}  // namespace trireme::cli
