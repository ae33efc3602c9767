#include "store/store.h"

#include <regex>

#include "base/error.h"
#include "store/etcd_store.h"
#include "store/memory_store.h"
#include "store/sqlite_store.h"

namespace trireme::store {

std::unique_ptr<Store> open_store(const StoreOptions& options) {
  const std::string& location = options.location;
  const auto after = [&](std::string_view scheme) { return location.substr(scheme.size()); };
  if (location == "memory:") return open_memory_store(std::make_shared<MemorySpace>());
  if (location.starts_with("etcd://") || location.starts_with("etcds://")) {
    return open_etcd_store(parse_etcd_location(location), options.call_within);
  }
  if (location.starts_with("sqlite:")) return open_sqlite_store(after("sqlite:"), options.call_within);
  if (location.empty() || std::regex_search(location, std::regex("^[A-Za-z][A-Za-z0-9+.-]*:"))) {
    fail<InvalidArgument>(
        "'{}' is not a store: use memory:, sqlite:/folder/file.db, the path of a file (./ before one "
        "with a colon), or etcd://host:2379,host:2379 (etcds:// for TLS)",
        location);
  }
  return open_sqlite_store(location, options.call_within);
}

bool sqlite_store_available() {
#ifdef TRIREME_HAS_SQLITE
  return true;
#else
  return false;
#endif
}

void check_changes(const Changes& changes) {
  if (changes.size() > kMostChanges) {
    fail<InvalidArgument>("{} changes do not fit into one commit: {} at most; split them", changes.size(),
                          kMostChanges);
  }
  std::size_t bytes = 0;
  for (const auto& [key, value] : changes) {
    if (key.empty()) fail<InvalidArgument>("an entry of the store needs a key that is not empty");
    bytes += key.size() + (value ? value->size() : 0);
  }
  if (bytes > kMostCommitBytes) {
    fail<InvalidArgument>("{} bytes do not fit into one commit: {} at most; keep what is large in a file", bytes,
                          kMostCommitBytes);
  }
}

}  // namespace trireme::store
