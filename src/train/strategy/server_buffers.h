#pragma once

#include <span>

#include "elastic/buffers.h"

namespace trireme {

/// A model's buffers (batch-norm statistics) as a table of sums on parameter servers (see ps::TableSpec): the number of
/// lanes that the sums are of; the float32 buffers, summed over them; then the others (counts and the like), which have
/// no mean, as the first lane left them. Numbers of 16 bits go through floats unharmed, so the others travel as such.
class ServerBuffers {
 public:
  ServerBuffers(const torch::nn::Module& module, BufferPolicy policy);

  /// Returns whether there is anything to share.
  bool any() const { return policy_ != BufferPolicy::kOwn && floats() > 1; }

  /// Returns the size of the table.
  std::size_t floats() const;

  /// Returns the part of `table` that the sums of the float32 buffers over this worker's lanes go to before `add`;
  /// nullopt where lanes do not begin from the same buffers.
  std::optional<std::span<float>> sums(std::span<float> table) const;

  /// Completes this worker's share of a step's sums. `first` says that it has the first lane, or works for itself.
  void add(std::span<float> table, Lane lanes, bool first) const;

  /// Writes the module's buffers to `table`, as the sums of one lane.
  void put(std::span<float> table) const;

  /// Makes what `table` holds the module's buffers.
  void take(std::span<const float> table) const;

 private:
  void put_others(std::span<float> table) const;

  BufferPolicy policy_;
  ModelBuffers buffers_;
  std::size_t means_ = 0;   // floats
  std::size_t others_ = 0;  // floats: half of their bytes
};

}  // namespace trireme
