// A safetensors file by somebody else: as it is, and with the length of its header put right.
#include <algorithm>

#include "checkpoint/safetensors/safetensors_header.h"
#include "tests/fuzz/fuzz.h"

namespace trireme::checkpoint {
namespace {

void parse(std::string_view file) {
  fuzz::returns_or_refuses([&] {
    const SafetensorsContent content = parse_safetensors(as_bytes(file), "the file");
    std::string data;
    std::vector<const TensorView*> tensors;
    for (const TensorView& tensor : content.tensors) {
      fuzz::require(byte_size(tensor.shape, tensor.dtype) == tensor.data.size(), "a tensor has other bytes than shape");
      tensors.push_back(&tensor);
      data += as_text(tensor.data);  // reads all of it
    }
    const std::string again = encode_header(tensors, content.metadata) + data;
    const SafetensorsContent same = parse_safetensors(as_bytes(again), "the file written again");
    fuzz::require(same.metadata == content.metadata && same.tensors.size() == content.tensors.size(),
                  "a file is not what it was once written again");
  });
}

}  // namespace
}  // namespace trireme::checkpoint

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace trireme;
  std::string file(fuzz::text_of(data, size));
  checkpoint::parse(file);
  const std::size_t end = file.rfind('}');
  if (end == std::string::npos || end < 8) return 0;
  store_le(std::as_writable_bytes(std::span(file)), std::uint64_t{end + 1 - 8});
  checkpoint::parse(file);
  return 0;
}
