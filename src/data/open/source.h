#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trireme/open.h"

#include "data/open/kind.h"

namespace trireme::data {

/// Data as its source has it: not split, not normalised.
struct Source {
  SourceKind kind = SourceKind::kTable;
  DatasetPtr samples = {};
  DatasetPtr test = {};  ///< where the data itself has a part for testing; else null
  std::optional<TableEncoding> table = {};
  std::vector<std::string> notes = {};
};

/// Opens what `spec` names; `known` is what was learned from the training set, null for the training set itself.
/// Targets and ignored fields are as `options` say. Throws as open().
Source open_source(const std::string& spec, const OpenOptions& options, const Encoding* known = nullptr);

/// Whether samples follow each other in a stream, so that neighbours belong together.
bool is_stream(SourceKind kind);

/// Whether a sample takes long to read, because it has to be decoded.
bool is_decoded(SourceKind kind);

}  // namespace trireme::data
