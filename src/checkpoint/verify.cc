#include "checkpoint/verify.h"

#include <algorithm>

#include "base/error.h"
#include "checkpoint/layout.h"

namespace trireme::checkpoint {
namespace {

void verify_part(const std::filesystem::path& path, const PartIndex& index, VerifyReport& report) {
  const FileDescriptor file = open_data(path);
  std::vector<std::byte> buffer(std::min(index.block_bytes, index.bytes));
  for (std::uint64_t block = 0; block < index.crcs.size(); ++block) {
    const MutableBytes bytes = MutableBytes(buffer).first(block_length(index, block));
    read_block(file, path, index, block, bytes);
    if (auto damage = check_block(path, index, block, bytes)) report.damaged.push_back(std::move(*damage));
    report.bytes += bytes.size();
    ++report.blocks;
  }
}

}  // namespace

VerifyReport verify(const std::filesystem::path& folder) {
  VerifyReport report;
  const auto note = [&](const auto& look) {
    try {
      look();
    } catch (const Corrupt& problem) {
      report.problems.emplace_back(problem.what());
    }
  };
  note([&] {
    const Manifest manifest = load_manifest(real_file_system(), folder);
    std::vector<PartIndex> indexes;
    for (std::uint32_t part = 0; part < manifest.parts.size(); ++part) {
      note([&] {
        indexes.push_back(load_part(real_file_system(), folder, manifest, part));
        const PartIndex& index = indexes.back();
        verify_part(folder / (part_stem(index.part, index.parts, index.attempt) + ".bin"), index, report);
      });
    }
    if (indexes.size() == manifest.parts.size()) lay_out(manifest.tensors, indexes, folder.string());
  });
  return report;
}

}  // namespace trireme::checkpoint
