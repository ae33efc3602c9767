// The documents of a checkpoint: a manifest, and the indexes of its parts, one per line. Read as they are, and with the
// seal put right; what is sound is laid out.
#include "base/hash.h"
#include "checkpoint/document.h"
#include "checkpoint/layout.h"
#include "tests/fuzz/fuzz.h"

namespace trireme::checkpoint {
namespace {

/// `body` with a seal that fits, whatever it is.
std::string sealed(std::string_view kind, std::string_view body) {
  Sha256 hash;
  hash.add(as_bytes(body));
  return fmt::format(R"({{"sha256":"{}","{}":{}}})"
                     "\n",
                     hash.hex(), kind, body);
}

template <typename Document>
std::optional<Document> parse(Document (*parser)(std::string_view, const std::string&), std::string_view text) {
  std::optional<Document> document;
  if (fuzz::returns_or_refuses([&] { document = parser(text, "the document"); })) {
    fuzz::require(parser(encode(*document), "the document written again") == *document,
                  "a document is not what it was once written again");
  }
  return document;
}

void read(std::string_view text) {
  parse(parse_manifest, text);
  parse(parse_part_index, text);
  std::optional<Manifest> manifest;
  std::vector<PartIndex> indexes;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (!manifest) manifest = parse(parse_manifest, sealed("manifest", line));
    if (const auto index = parse(parse_part_index, sealed("index", line))) indexes.push_back(*index);
  }
  if (!manifest) return;
  fuzz::returns_or_refuses([&] {
    const auto extents = lay_out(manifest->tensors, indexes, "the checkpoint");
    for (std::size_t i = 0; i < extents.size(); ++i) {
      std::uint64_t bytes = 0;
      for (const Extent& extent : extents[i]) bytes += extent.length;
      fuzz::require(bytes == bytes_of(manifest->tensors[i]), "the extents of a tensor are not all of it");
    }
  });
}

}  // namespace
}  // namespace trireme::checkpoint

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  trireme::checkpoint::read(trireme::fuzz::text_of(data, size));
  return 0;
}
