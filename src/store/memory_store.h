#pragma once

#include <memory>

#include "store/store.h"

namespace trireme::store {

/// What memory stores share, as processes share a file; with faults that a test may ask for. Thread-safe.
class MemorySpace {
 public:
  MemorySpace();
  ~MemorySpace();

  /// False: every call throws IoError and nobody is `leading()`, as if the store were out of reach.
  void set_reachable(bool reachable);

  /// Takes the lead from whoever has it, as if its lease had run out while it was stopped.
  void depose();

  struct State;
  State& state() { return *state_; }  ///< for the store

 private:
  std::unique_ptr<State> state_;
};

/// A store in `space`: as lasting as that is. Its leader is replaced as soon as the Leadership ends.
std::unique_ptr<Store> open_memory_store(std::shared_ptr<MemorySpace> space);

}  // namespace trireme::store
