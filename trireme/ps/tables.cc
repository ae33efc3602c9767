#include "trireme/ps/tables.h"

#include "trireme/base/error.h"

namespace trireme::ps {
namespace {

// What a request can make us allocate.
constexpr std::uint32_t kMaxParties = 1u << 16;                 // workers, servers, lanes
constexpr double kMaxFloats = static_cast<double>(1ull << 40);  // of all servers together
constexpr double kMaxChunks = static_cast<double>(1u << 24);

void check_description(const OpenRequest& description) {
  if (description.workers == 0 || description.workers > kMaxParties || description.servers == 0 ||
      description.servers > kMaxParties || description.lanes == 0 || description.lanes > kMaxParties ||
      description.server >= description.servers) {
    fail<InvalidArgument>("a job of {} workers, {} servers and {} lanes cannot be (server {})", description.workers,
                          description.servers, description.lanes, description.server);
  }
  double floats = 0;
  for (const TableSpec& table : description.tables) floats += static_cast<double>(table.elements);
  if (floats > kMaxFloats || floats * sizeof(float) / static_cast<double>(description.max_chunk_bytes) > kMaxChunks) {
    fail<InvalidArgument>("tables of {} floats in chunks of {} bytes are more than a server can hold", floats,
                          description.max_chunk_bytes);
  }
  validate(description.update);
  validate(description.consistency, description.workers);
}

}  // namespace

Tables::Tables(const OpenRequest& description) : description_(description) {
  check_description(description);
  policy_ = {.update = description.update,
             .consistency = description.consistency,
             .workers = description.workers,
             .lanes = description.lanes};
  const Layout layout(description.tables, description.servers, {.max_chunk_bytes = description.max_chunk_bytes});
  const std::uint32_t count = layout.server_chunks(description.server);
  const std::uint64_t words = version_words_bytes(count);
  parameter_bytes_ = layout.server_floats(description.server) * sizeof(float);
  segment_ = net::Segment::create("trireme-parameters", words + parameter_bytes_);
  segment_->seal_writes();
  auto* word = reinterpret_cast<std::atomic<std::uint64_t>*>(segment_->bytes().data());
  auto* floats = reinterpret_cast<float*>(segment_->bytes().data() + words);
  for (const Layout::Chunk& chunk : layout.chunks()) {
    if (chunk.place.server != description.server) continue;
    chunks_.emplace_back(policy_, std::span(floats + chunk.server_offset, chunk.place.count), word++);
  }
}

void Tables::check_same(const OpenRequest& other) const {
  const nlohmann::json ours(description_);
  const nlohmann::json theirs(other);
  for (const auto& [field, value] : ours.items()) {
    if (theirs.at(field) != value) {
      fail<InvalidArgument>(
          "this server already holds the tables of a job with another '{}': {} here, {} asked for; "
          "do all workers run the same program with the same flags?",
          field, value.dump().substr(0, 200), theirs.at(field).dump().substr(0, 200));
    }
  }
}

Chunk& Tables::chunk(std::uint32_t index) {
  if (index >= chunks_.size()) fail<InvalidArgument>("there is no chunk {} here, only {}", index, chunks_.size());
  return chunks_[index];
}

Chunk::Clocks Tables::clocks() {
  if (chunks_.empty()) return {};
  Chunk::Clocks clocks = chunks_.front().clocks();
  for (Chunk& chunk : chunks_) clocks.spread_max = std::max(clocks.spread_max, chunk.clocks().spread_max);
  return clocks;
}

std::uint64_t Tables::state_bytes() const {
  std::uint64_t bytes = 0;
  for (const Chunk& chunk : chunks_) bytes += chunk.state_bytes();
  return bytes;
}

}  // namespace trireme::ps
