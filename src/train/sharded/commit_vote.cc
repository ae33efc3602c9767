#include "train/sharded/commit_vote.h"

#include <algorithm>
#include <bit>

#include "base/error.h"

namespace trireme {
namespace {

constexpr std::size_t kVoteNumbers = 4;      // samples, stop, regroup, finite
constexpr std::size_t kPositionNumbers = 9;  // see to_words

std::int64_t bits_of(double value) { return std::bit_cast<std::int64_t>(value); }
double from_bits(std::int64_t bits) { return std::bit_cast<double>(bits); }

std::vector<std::int64_t> gather_words(collective::Communicator& ranks, const std::vector<std::int64_t>& own) {
  std::vector<std::int64_t> all(own.size() * ranks.size());
  ranks.run(collective::all_gather(std::span<const std::int64_t>(own), std::span<std::int64_t>(all)));
  return all;
}

std::vector<std::int64_t> to_words(const CommitPosition& position) {
  return {position.at.fresh ? 0 : 1,
          static_cast<std::int64_t>(position.at.version),
          static_cast<std::int64_t>(position.at.updates),
          position.prepared ? 1 : 0,
          static_cast<std::int64_t>(position.last.version),
          static_cast<std::int64_t>(position.last.updates),
          bits_of(position.last.lr),
          bits_of(position.last.gradient_scale),
          position.last.left_out ? 1 : 0};
}

CommitPosition from_words(std::span<const std::int64_t> words) {
  return {
      .at = {.fresh = words[0] == 0, .version = static_cast<Step>(words[1]), .updates = static_cast<Step>(words[2])},
      .prepared = words[3] != 0,
      .last = {.version = static_cast<Step>(words[4]),
               .updates = static_cast<Step>(words[5]),
               .lr = from_bits(words[6]),
               .gradient_scale = from_bits(words[7]),
               .left_out = words[8] != 0}};
}

}  // namespace

CommitVote gather_votes(collective::Communicator& ranks, const CommitVote& own, bool with_squares) {
  std::vector<std::int64_t> words{bits_of(own.samples), own.stop ? 1 : 0, own.regroup ? 1 : 0, own.finite ? 1 : 0};
  if (with_squares) {
    const std::vector<std::int64_t> squares = own.squares.words();
    words.insert(words.end(), squares.begin(), squares.end());
  }
  const std::vector<std::int64_t> all = gather_words(ranks, words);
  CommitVote together;
  for (Rank rank = 0; rank < ranks.size(); ++rank) {
    const auto theirs = std::span(all).subspan(rank * words.size(), words.size());
    together.samples += from_bits(theirs[0]);
    together.stop = together.stop || theirs[1] != 0;
    together.regroup = together.regroup || theirs[2] != 0;
    together.finite = together.finite && theirs[3] != 0;
    if (with_squares) together.squares.add(ExactSum::from_words(theirs.subspan(kVoteNumbers)));
  }
  return together;
}

std::vector<CommitPosition> gather_positions(collective::Communicator& ranks, const CommitPosition& own) {
  const std::vector<std::int64_t> words = to_words(own);
  TRIREME_CHECK(words.size() == kPositionNumbers);
  const std::vector<std::int64_t> all = gather_words(ranks, words);
  std::vector<CommitPosition> positions;
  for (Rank rank = 0; rank < ranks.size(); ++rank) {
    positions.push_back(from_words(std::span(all).subspan(rank * kPositionNumbers, kPositionNumbers)));
  }
  return positions;
}

CommitDecision decide_commit(const std::vector<CommitPosition>& positions) {
  CommitDecision decision{.fresh = true};
  for (const CommitPosition& position : positions) {
    if (position.at.fresh) continue;
    decision.fresh = false;
    decision.version = std::max(decision.version, position.at.version);
  }
  if (decision.fresh) return decision;
  for (const CommitPosition& position : positions) {
    if (position.at.fresh || position.at.version != decision.version) continue;
    decision.updates = position.at.updates;
    if (position.last.version == decision.version) decision.finish = position.last;
  }
  const bool known = decision.finish.version == decision.version && decision.version > 0;
  bool anybody_behind = false;
  for (Rank rank = 0; rank < positions.size(); ++rank) {
    const CommitPosition& position = positions[rank];
    if (position.at.fresh) continue;
    const bool newest = position.at.version == decision.version;
    const bool can_follow = known && position.prepared && position.at.version + 1 == decision.version;
    if (newest || can_follow) decision.holders.push_back(rank);
    anybody_behind = anybody_behind || (can_follow && !newest);
  }
  if (!anybody_behind) decision.finish = {};
  return decision;
}

}  // namespace trireme
