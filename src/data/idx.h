#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include "data/dataset.h"
#include "data/mirrors.h"
#include "data/normalized.h"

namespace trireme::data {

struct IdxOptions {
  Normalization normalization = {};                  ///< applied to pixels scaled to 0..1
  std::int64_t classes = 10;                         ///< labels must be below this; 1 to 256
  std::vector<std::int64_t> shape = {};              ///< {1, rows, columns} that images must have; empty = any
  std::uint64_t max_bytes = std::uint64_t{4} << 30;  ///< a file that claims more is refused unread
};

/// Grey images and their labels from two IDX files (the format of MNIST), each plain or gzip, whatever its name. Each
/// is read from the first of its mirrors that is sound (see Mirrors::read_any); images are sound if they are as many
/// as the labels.
///
/// Keeps one byte per pixel and converts on read. Sample shape {1, rows, columns}. Memory stays within what the files
/// really hold: sizes in a header are believed only as far as the file can back them.
/// Throws IoError if a file cannot be read, Corrupt if one is malformed or they do not belong together (the message
/// names file, offset, and what was expected), InvalidArgument for bad options.
std::shared_ptr<const Dataset> load_idx(const Mirrors& images, const Mirrors& labels, const IdxOptions& options = {});

}  // namespace trireme::data
