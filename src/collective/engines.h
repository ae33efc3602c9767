#pragma once

#include <functional>
#include <memory>
#include <string>

#include "trireme/deadline.h"

#include "collective/backend.h"

namespace trireme::collective {

/// Makes an engine that connects the ranks by itself; blocks until all have called it.
using EngineFactory = std::function<std::unique_ptr<Backend>(Deadline deadline)>;

/// Makes an engine of another library known to this program by its name: the core links none of them. Thread-safe.
void register_engine(const std::string& name, EngineFactory factory);

/// Returns a new engine of that name. Throws InvalidArgument if the program has none, and what the engine throws.
std::unique_ptr<Backend> make_engine(const std::string& name, Deadline deadline);

}  // namespace trireme::collective
