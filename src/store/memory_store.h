#pragma once

#include <memory>

#include "store/store.h"

namespace trireme::store {

/// What memory stores share, as processes share a file; with faults that a test may inject. Thread-safe.
class MemorySpace {
 public:
  MemorySpace();
  ~MemorySpace();

  /// If false, every call throws IoError and nobody is `leading()`, as if the store were out of reach.
  void set_reachable(bool reachable);

  /// Ends the current leadership, as if its lease had expired while its holder was stopped.
  void depose();

  struct State;
  State& state() { return *state_; }  ///< for the store

 private:
  std::unique_ptr<State> state_;
};

/// Opens a store in `space`, with the lifetime of that. A leader is replaced as soon as its Leadership ends.
std::unique_ptr<Store> open_memory_store(std::shared_ptr<MemorySpace> space);

}  // namespace trireme::store
