#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/format.h"
#include "collective/communicator.h"
#include "elastic/transfers.h"

namespace trireme {

/// The tensors that the ranks of a job hold together, in the order of their names: the same list on all of them.
class TensorTable {
 public:
  /// `own` are those that this rank has, or a part of: described whole. A collective call. Throws InvalidArgument, on
  /// all ranks, naming two that describe a tensor differently.
  TensorTable(collective::Communicator& ranks, const std::vector<checkpoint::TensorInfo>& own);

  std::size_t size() const { return tensors_.size(); }
  const checkpoint::TensorInfo& operator[](std::size_t i) const { return tensors_[i]; }
  std::span<const checkpoint::TensorInfo> all() const { return tensors_; }

  /// Which one has this name; it must be there.
  std::uint32_t number(const std::string& name) const { return numbers_.at(name); }
  bool contains(const std::string& name) const { return numbers_.contains(name); }

  /// All bytes of all of them.
  StateRanges everything() const;

 private:
  std::vector<checkpoint::TensorInfo> tensors_;
  std::map<std::string, std::uint32_t> numbers_;
};

/// Returns every rank's ranges, by rank. A collective call.
std::vector<StateRanges> gather_ranges(collective::Communicator& ranks, const StateRanges& own);

}  // namespace trireme
