#include "train/sharded/tensor_table.h"

#include <array>
#include <cstring>

#include <nlohmann/json.hpp>

#include "base/error.h"

namespace trireme {
namespace {

constexpr std::size_t kRangeWords = 3;

std::string pack_ranges(const StateRanges& ranges) {
  std::string text(ranges.size() * kRangeWords * sizeof(std::uint64_t), '\0');
  char* to = text.data();
  for (const StateRange& range : ranges) {
    const std::array<std::uint64_t, kRangeWords> words{range.tensor, range.offset, range.length};
    std::memcpy(to, words.data(), sizeof(words));
    to += sizeof(words);
  }
  return text;
}

StateRanges unpack_ranges(const std::string& text) {
  StateRanges ranges(text.size() / (kRangeWords * sizeof(std::uint64_t)));
  const char* from = text.data();
  for (StateRange& range : ranges) {
    std::array<std::uint64_t, kRangeWords> words{};
    std::memcpy(words.data(), from, sizeof(words));
    range = {static_cast<std::uint32_t>(words[0]), words[1], words[2]};
    from += sizeof(words);
  }
  return ranges;
}

}  // namespace

TensorTable::TensorTable(collective::Communicator& ranks, const std::vector<checkpoint::TensorInfo>& own) {
  nlohmann::json described = nlohmann::json::object();
  for (const checkpoint::TensorInfo& tensor : own) described[tensor.name] = {name_of(tensor.dtype), tensor.shape};
  std::map<std::string, std::pair<Rank, nlohmann::json>> all;
  const std::vector<std::string> texts = gather_texts(ranks, described.dump());
  for (Rank rank = 0; rank < texts.size(); ++rank) {
    const nlohmann::json theirs = nlohmann::json::parse(texts[rank]);
    for (const auto& [name, tensor] : theirs.items()) {
      const auto& [first, known] = all.try_emplace(name, rank, tensor).first->second;
      if (known == tensor) continue;
      fail<InvalidArgument>("'{}' is {} at rank {} and {} at rank {}: all workers train the same model", name,
                            known.dump(), first, tensor.dump(), rank);
    }
  }
  for (const auto& [name, described_by] : all) {
    numbers_[name] = static_cast<std::uint32_t>(tensors_.size());
    const nlohmann::json& tensor = described_by.second;
    tensors_.push_back({.name = name,
                        .dtype = *dtype_from_name(tensor[0].get<std::string>()),
                        .shape = tensor[1].get<std::vector<std::int64_t>>()});
  }
}

StateRanges TensorTable::everything() const {
  StateRanges ranges;
  for (std::uint32_t i = 0; i < tensors_.size(); ++i) ranges.push_back({i, 0, checkpoint::bytes_of(tensors_[i])});
  return ranges;
}

std::vector<StateRanges> gather_ranges(collective::Communicator& ranks, const StateRanges& own) {
  std::vector<StateRanges> all;
  for (const std::string& text : gather_texts(ranks, pack_ranges(own))) all.push_back(unpack_ranges(text));
  return all;
}

}  // namespace trireme
