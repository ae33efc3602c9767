#include "checkpoint/checkpoint.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/suggest.h"
#include "checkpoint/blocks.h"

namespace trireme::checkpoint {

Checkpoint Checkpoint::open(const std::filesystem::path& folder) {
  Checkpoint checkpoint;
  checkpoint.folder_ = folder;
  checkpoint.manifest_ = load_manifest(real_file_system(), folder);
  const Manifest& manifest = checkpoint.manifest_;
  std::vector<PartIndex> indexes;
  for (std::uint32_t part = 0; part < manifest.parts.size(); ++part) {
    indexes.push_back(load_part(real_file_system(), folder, manifest, part));
  }
  checkpoint.extents_ = lay_out(manifest.tensors, indexes, folder.string());
  for (PartIndex& index : indexes) {
    const std::filesystem::path path = folder / (part_stem(index.part, index.parts, index.attempt) + ".bin");
    checkpoint.parts_.push_back({.index = std::move(index), .path = path, .file = open_data(path)});
  }
  for (std::size_t i = 0; i < manifest.tensors.size(); ++i) checkpoint.numbers_.emplace(manifest.tensors[i].name, i);
  return checkpoint;
}

std::uint64_t Checkpoint::bytes() const {
  std::uint64_t sum = 0;
  for (const PartEntry& part : manifest_.parts) sum += part.bytes;
  return sum;
}

const TensorInfo* Checkpoint::find(std::string_view name) const {
  const auto found = numbers_.find(std::string(name));
  return found == numbers_.end() ? nullptr : &manifest_.tensors[found->second];
}

const TensorInfo& Checkpoint::at(std::string_view name) const {
  if (const TensorInfo* tensor = find(name)) return *tensor;
  std::vector<std::string> names;
  for (const TensorInfo& tensor : tensors()) names.push_back(tensor.name);
  fail<InvalidArgument>("{} holds no tensor '{}'{}; was it written by another model?", folder_.string(), name,
                        did_you_mean(name, names));
}

void Checkpoint::read(std::string_view tensor, std::uint64_t offset, MutableBytes to) const {
  const TensorInfo& info = at(tensor);
  const std::uint64_t bytes = bytes_of(info);
  if (offset > bytes || to.size() > bytes - offset) {
    fail<InvalidArgument>("'{}' has {} bytes; {} were asked for from {} on", tensor, bytes, to.size(), offset);
  }
  const auto& extents = extents_[static_cast<std::size_t>(&info - manifest_.tensors.data())];
  auto extent = std::ranges::upper_bound(extents, offset, {}, &Extent::offset);
  for (extent -= extent == extents.begin() ? 0 : 1; !to.empty(); ++extent) {
    const std::uint64_t skipped = offset - extent->offset;
    const std::uint64_t length = std::min<std::uint64_t>(extent->length - skipped, to.size());
    read_part(parts_[extent->part], extent->position + skipped, to.first(length));
    to = to.subspan(length);
    offset += length;
  }
}

std::vector<std::byte> Checkpoint::read(std::string_view tensor) const {
  std::vector<std::byte> bytes(bytes_of(at(tensor)));
  read(tensor, 0, bytes);
  return bytes;
}

void Checkpoint::read_part(const Part& part, std::uint64_t position, MutableBytes to) const {
  std::vector<std::byte> aside;  // for blocks of which only a part is wanted
  while (!to.empty()) {
    const std::uint64_t block = position / part.index.block_bytes;
    const std::uint64_t skipped = position - block * part.index.block_bytes;
    const std::uint64_t length = block_length(part.index, block);
    const std::uint64_t wanted = std::min<std::uint64_t>(length - skipped, to.size());
    const bool whole = wanted == length;
    if (!whole) aside.resize(length);
    const MutableBytes target = whole ? to.first(length) : MutableBytes(aside);
    read_block(part.file, part.path, part.index, block, target);
    if (const auto damage = check_block(part.path, part.index, block, target)) {
      fail<Corrupt>("{}: use another checkpoint (trireme ckpt ls)", describe(*damage));
    }
    if (!whole) std::memcpy(to.data(), aside.data() + skipped, wanted);
    to = to.subspan(wanted);
    position += wanted;
  }
}

}  // namespace trireme::checkpoint
