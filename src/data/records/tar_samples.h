#pragma once

#include <string_view>

#include "data/records/record_index.h"

namespace trireme::data {

constexpr std::string_view kTarSamples = "webdataset";  ///< the kind of their index

/// The name of a file in a tar up to the first dot behind the last slash, and what is behind that dot.
struct TarMember {
  std::string_view key = {};
  std::string_view extension = {};  ///< empty: no file of a sample
};
TarMember split_member_name(std::string_view name);

/// Returns where the samples of a tar begin: at the first of neighbouring files with the same key. Throws Corrupt with
/// file and offset if it is damaged, empty or has no samples.
Offsets scan_tar_samples(const RandomAccessFile& file);

}  // namespace trireme::data
