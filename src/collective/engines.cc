#include "collective/engines.h"

#include <map>

#include "base/error.h"
#include "base/mutex.h"

namespace trireme::collective {
namespace {

struct EngineTable {
  Mutex mutex;
  std::map<std::string, EngineFactory> factories TRIREME_GUARDED_BY(mutex);
};

/// What was linked into the program is one fact of the process, as with models and tasks.
EngineTable& engine_table() {
  static EngineTable table;
  return table;
}

}  // namespace

void register_engine(const std::string& name, EngineFactory factory) {
  EngineTable& table = engine_table();
  const MutexLock lock(table.mutex);
  table.factories[name] = std::move(factory);
}

std::unique_ptr<Backend> make_engine(const std::string& name, Deadline deadline) {
  EngineFactory factory;
  {
    EngineTable& table = engine_table();
    const MutexLock lock(table.mutex);
    if (const auto found = table.factories.find(name); found != table.factories.end()) factory = found->second;
  }
  if (!factory) {
    fail<InvalidArgument>(
        "this program has no engine '{}': link Trireme::{} and call trireme::use_{}() before the job is joined", name,
        name, name);
  }
  return factory(deadline);
}

}  // namespace trireme::collective
