#pragma once

#include <chrono>
#include <filesystem>
#include <memory>

#include "store/store.h"

namespace trireme::store {

/// Opens a store in the SQLite file `path` on a local disk; creates the file if needed (its folder must exist).
///
/// Committed means on disk: a write-ahead log, synced once per commit. The leader holds a lock on `path`.lock, which
/// the kernel releases when the process dies, however it dies. A leader that merely hangs stays leader: kill it. It
/// keeps 8 MiB in `path`.reserve, which it gives up when a commit finds the disk full: decisions can still be saved.
/// Throws InvalidArgument if Trireme was built without SQLite, IoError, Corrupt if the file is something else.
std::unique_ptr<Store> open_sqlite_store(const std::filesystem::path& path, std::chrono::milliseconds call_within);

}  // namespace trireme::store
