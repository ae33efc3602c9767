#pragma once

#include <cstdint>
#include <filesystem>

namespace trireme::data {

struct SplitFileOptions {
  std::uint64_t every = 10;           ///< every n-th sample is for testing; of streams, the last n-th part
  std::filesystem::path folder = {};  ///< where to write; empty = beside the file
};

/// What was written.
struct SplitFiles {
  std::filesystem::path train = {};
  std::filesystem::path test = {};
  std::uint64_t train_samples = 0;  ///< rows, records; of streams, tokens or bytes
  std::uint64_t test_samples = 0;
};

/// Divides one file into NAME.train.EXT and NAME.test.EXT of the same kind, unpacked: a table or LIBSVM by rows,
/// TFRecord by records, a tar by samples, .npy by rows of the array, text and tokens at one place near the end. What is
/// copied is copied byte by byte.
///
/// Throws InvalidArgument if it is of another kind, or one part would be empty; IoError or Corrupt as its source does.
SplitFiles split_file(const std::filesystem::path& file, const SplitFileOptions& options = {});

}  // namespace trireme::data
