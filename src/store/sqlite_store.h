#pragma once

#include <chrono>
#include <filesystem>
#include <memory>

#include "store/store.h"

namespace trireme::store {

/// A store in the SQLite file `path`, made if it is not there (its folder has to be), on a disk of this machine.
///
/// Committed means on the disk: a write-ahead log, synced once per commit. Who leads holds a lock on `path`.lock, which
/// the kernel releases when the process dies, however it dies. A leader that merely hangs keeps the lead: end it.
/// Throws InvalidArgument where Trireme was built without SQLite, IoError, Corrupt if the file is something else.
std::unique_ptr<Store> open_sqlite_store(const std::filesystem::path& path, std::chrono::milliseconds call_within);

}  // namespace trireme::store
