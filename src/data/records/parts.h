#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/sources.h"

#include "base/bytes.h"

namespace trireme::data {

/// One field of one sample of a WebDataset, decoded.
struct Part {
  std::string name = {};
  DType dtype = DType::kU8;
  std::vector<std::int64_t> shape = {};
  std::vector<std::byte> bytes = {};
};

/// Appends the fields that a file of a sample holds: `extension` is its name behind the first dot. Files of an unknown
/// kind hold none. Throws Corrupt, beginning with `where`, if it is not what its name says; InvalidArgument if it is an
/// image and Trireme was built without its library.
void decode_part(std::string_view extension, Bytes content, const ImageSize& size, const std::string& where,
                 std::vector<Part>& parts);

/// An array in the format of NumPy's .npy files. Throws Corrupt, beginning with `where`.
Part decode_npy(Bytes content, const std::string& where);

}  // namespace trireme::data
