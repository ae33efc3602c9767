// A tar in the manner of WebDataset: its headers, and what the files of a sample hold.
#include <algorithm>

#include "data/records/parts.h"
#include "data/records/tar.h"
#include "data/records/tar_samples.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace trireme;
  const Bytes tar = as_bytes(fuzz::text_of(data, size));
  const auto fetch = [&](std::uint64_t offset, std::size_t count) {
    if (offset >= tar.size()) return Bytes();
    const Bytes left = tar.subspan(static_cast<std::size_t>(offset));
    return left.first(std::min(count, left.size()));
  };
  data::TarReader reader(tar.size(), fetch, [](std::uint64_t offset) { return "byte " + std::to_string(offset); });
  fuzz::returns_or_refuses([&] {
    data::TarEntry entry;
    while (reader.next(entry)) {
      fuzz::require(entry.begin + entry.size <= tar.size(), "a file is longer than the tar");
      std::vector<data::Part> parts;
      const data::TarMember name = data::split_member_name(entry.name);
      fuzz::returns_or_refuses([&] {
        data::decode_part(name.extension, fetch(entry.begin, static_cast<std::size_t>(entry.size)),
                          {.height = 2, .width = 2}, "it", parts);
      });
    }
  });
  return 0;
}
