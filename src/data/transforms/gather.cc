#include "data/transforms/gather.h"

#include <algorithm>
#include <cstring>

namespace trireme::data {
namespace {

/// Copies sample `from` of a field to sample `to`, which may have more room.
void copy_sample(const Batch& source, std::size_t from, Batch& out, std::size_t to, std::size_t field) {
  const std::size_t each_from = source.bytes(field).size() / source.size();
  const std::size_t each_to = out.bytes(field).size() / out.size();
  std::memcpy(out.bytes(field).data() + to * each_to, source.bytes(field).data() + from * each_from,
              std::min(each_from, each_to));
  if (!source.lengths(field).empty()) out.lengths(field)[to] = source.lengths(field)[from];
}

}  // namespace

void gather(const std::vector<DatasetPtr>& sources, const Schema& schema, std::span<const std::uint64_t> indices,
            Batch& out, std::uint64_t epoch, const std::function<Place(std::uint64_t)>& place) {
  std::vector<std::vector<std::uint64_t>> wanted(sources.size());
  std::vector<std::vector<std::size_t>> positions(sources.size());
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const Place at = place(indices[i]);
    wanted[at.source].push_back(at.index);
    positions[at.source].push_back(i);
  }
  for (std::size_t i = 0; i < sources.size(); ++i) {
    if (wanted[i].size() == indices.size()) return sources[i]->read(wanted[i], out, epoch);
  }
  std::vector<Batch> parts(sources.size());
  std::vector<std::int64_t> longest(schema.size(), 0);
  for (std::size_t i = 0; i < sources.size(); ++i) {
    if (wanted[i].empty()) continue;
    sources[i]->read(wanted[i], parts[i], epoch);
    for (std::size_t field = 0; field < schema.size(); ++field) {
      for (const std::int64_t length : parts[i].lengths(field)) longest[field] = std::max(longest[field], length);
    }
  }
  out.make_room(schema, indices.size(), longest);
  for (std::size_t i = 0; i < sources.size(); ++i) {
    for (std::size_t k = 0; k < positions[i].size(); ++k) {
      for (std::size_t field = 0; field < schema.size(); ++field) {
        copy_sample(parts[i], k, out, positions[i][k], field);
      }
    }
  }
  for (std::size_t field = 0; field < schema.size(); ++field) {
    if (schema[field].varies()) out.pad(field);
  }
}

}  // namespace trireme::data
