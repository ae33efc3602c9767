#pragma once

#include "trireme/dataset.h"

#include "base/bytes.h"

namespace trireme::data {

/// Returns memory for a source to read into while it fills `batch`: the batch's scratch, so the next one finds it
/// again; what is allocated anew each time is given to us page by page, which takes longer than reading. Its contents
/// are unspecified. Valid until the next call, or use of the scratch.
inline MutableBytes workspace(Batch& batch, std::size_t bytes) {
  static const Schema kBytes{{.name = "bytes", .dtype = DType::kU8, .shape = {kVaries}}};
  const auto size = static_cast<std::int64_t>(bytes);
  batch.scratch().make_room(kBytes, 1, {&size, 1});
  return batch.scratch().bytes(0);
}

}  // namespace trireme::data
