#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "trireme/sources.h"

#include "base/error.h"
#include "data/files/random_access_file.h"
#include "data/files/shards.h"
#include "data/text/token_loops.h"
#include "data/workspace.h"

namespace trireme::data {
namespace {

/// What the 256 numbers before the tokens begin with, in the two kinds of file that llm.c knows.
struct LlmcKind {
  std::int32_t magic;
  std::int32_t version;
  std::uint32_t width;
  std::int64_t vocabulary;
};
constexpr std::array kLlmcKinds{LlmcKind{20240520, 1, 2, 50257},    // GPT-2
                                LlmcKind{20240801, 7, 4, 128256}};  // Llama 3
constexpr std::uint64_t kLlmcHeader = 256 * sizeof(std::int32_t);
constexpr std::size_t kMostRead = 128 << 10;  // in one piece: it is still in the core's cache when it is converted

/// One file of tokens.
struct TokenShard {
  RandomAccessFile file;
  std::uint64_t begin = 0;  ///< offset of the first token
  std::uint64_t tokens = 0;
  std::uint32_t width = 2;
  std::int64_t vocabulary = 0;  ///< 0 = unknown
  std::uint64_t end = 0;        ///< samples of this shard and those before it

  std::string at(std::uint64_t token) const { return file.at(begin + token * width); }
};

void read_llmc_header(TokenShard& shard, const LlmcKind& kind, std::span<const std::int32_t> header) {
  if (header[1] != kind.version) {
    fail<Corrupt>("{}: version {} of llm.c's files of tokens, expected {}", shard.file.at(4), header[1], kind.version);
  }
  const std::uint64_t held = (shard.file.size() - kLlmcHeader) / kind.width;
  const auto claimed = static_cast<std::uint32_t>(header[2]);  // a count beyond 2^31 is negative there
  if (claimed != held || (shard.file.size() - kLlmcHeader) % kind.width != 0) {
    fail<Corrupt>("{}: expected {} tokens of {} bytes, found {} bytes behind the header: {}", shard.file.at(8), claimed,
                  kind.width, shard.file.size() - kLlmcHeader,
                  claimed > held ? "the file is truncated" : "something follows them");
  }
  shard.begin = kLlmcHeader;
  shard.tokens = held;
  shard.width = kind.width;
  shard.vocabulary = kind.vocabulary;
}

TokenShard open_shard(const std::filesystem::path& path, std::uint32_t width) {
  TokenShard shard{.file = RandomAccessFile(path)};
  if (shard.file.size() == 0) fail<Corrupt>("{}: the file is empty, expected tokens", shard.file.at(0));
  if (width > 1 && shard.file.size() >= kLlmcHeader) {
    std::array<std::int32_t, 3> header;
    shard.file.read(0, std::as_writable_bytes(std::span(header)));
    const auto kind = std::ranges::find(kLlmcKinds, header[0], &LlmcKind::magic);
    if (kind != kLlmcKinds.end()) {
      read_llmc_header(shard, *kind, header);
      return shard;
    }
  }
  shard.width = width;
  shard.tokens = shard.file.size() / width;
  if (shard.file.size() % width != 0) {
    fail<Corrupt>("{}: the file ends within a token: it has {} bytes, expected a multiple of {}",
                  shard.at(shard.tokens), shard.file.size(), width);
  }
  return shard;
}

std::uint32_t largest_of(const TokenShard& shard) {
  std::vector<std::byte> buffer(kMostRead);
  std::uint32_t most = 0;
  for (std::uint64_t done = 0; done < shard.tokens;) {
    const std::uint64_t part = std::min<std::uint64_t>(buffer.size() / shard.width, shard.tokens - done);
    const MutableBytes bytes = MutableBytes(buffer).first(part * shard.width);
    shard.file.read(shard.begin + done * shard.width, bytes);
    most = std::max(most, largest(bytes.data(), shard.width, part));
    done += part;
  }
  return most;
}

std::int64_t find_vocabulary(const std::vector<TokenShard>& shards) {
  if (const auto info = token_info(shards.front().file.path())) return info->vocabulary;
  if (shards.front().vocabulary > 0) return shards.front().vocabulary;
  std::uint32_t most = 0;
  for (const TokenShard& shard : shards) most = std::max(most, largest_of(shard));
  return (std::int64_t{most} / 64 + 1) * 64;
}

Schema schema_of(const TokenOptions& options, std::int64_t vocabulary) {
  return {{.name = "tokens",
           .dtype = DType::kI32,
           .shape = {static_cast<std::int64_t>(options.length + 1)},
           .classes = {vocabulary}}};
}

class Tokens final : public Dataset {
 public:
  Tokens(std::vector<TokenShard> shards, const TokenOptions& options, std::int64_t vocabulary)
      : Dataset(schema_of(options, vocabulary)),
        shards_(std::move(shards)),
        window_(options.length + 1),
        stride_(options.stride > 0 ? options.stride : options.length),
        vocabulary_(vocabulary) {
    std::uint64_t tokens = 0;
    std::uint64_t end = 0;
    for (TokenShard& shard : shards_) {
      tokens += shard.tokens;
      if (shard.tokens >= window_) end += (shard.tokens - window_) / stride_ + 1;
      shard.end = end;
    }
    if (end == 0) {
      fail<InvalidArgument>("{} has {} tokens in {} files: too few for a window of {} and the one behind it",
                            shards_.front().file.path().string(), tokens, shards_.size(), window_ - 1);
    }
  }

  std::uint64_t size() const override { return shards_.back().end; }
  std::string describe() const override {
    const std::string more = shards_.size() > 1 ? fmt::format(" and {} more", shards_.size() - 1) : "";
    return fmt::format("{}{}: {}", shards_.front().file.path().string(), more, summary());
  }

 private:
  /// Neighbouring windows, as a pass in order has them, are read together.
  void fill(std::span<const std::uint64_t> indices, Batch& out, std::uint64_t /*epoch*/) const override {
    out.make_room(schema(), indices.size());
    std::int32_t* to = out.values<std::int32_t>(0).data();
    for (std::size_t i = 0; i < indices.size();) {
      const TokenShard& shard = *std::ranges::upper_bound(shards_, indices[i], {}, &TokenShard::end);
      const std::uint64_t first = &shard == shards_.data() ? 0 : (&shard - 1)->end;
      std::size_t run = 1;
      const auto tokens_of = [&](std::size_t windows) { return (windows - 1) * stride_ + window_; };
      while (i + run < indices.size() && indices[i + run] == indices[i] + run && indices[i + run] < shard.end &&
             tokens_of(run + 1) * shard.width <= kMostRead) {
        ++run;
      }
      const std::uint64_t from = (indices[i] - first) * stride_;
      const MutableBytes buffer = workspace(out, tokens_of(run) * shard.width);
      shard.file.read(shard.begin + from * shard.width, buffer);
      for (std::size_t window = 0; window < run; ++window, to += window_) {
        const std::byte* bytes = buffer.data() + window * stride_ * shard.width;
        if (widen(bytes, shard.width, to, window_) >= vocabulary_)
          refuse(shard, from + window * stride_, {to, window_});
      }
      i += run;
    }
  }

  [[noreturn]] void refuse(const TokenShard& shard, std::uint64_t from, std::span<const std::int32_t> tokens) const {
    const auto bad = std::ranges::find_if(
        tokens, [&](std::int32_t token) { return std::int64_t{static_cast<std::uint32_t>(token)} >= vocabulary_; });
    fail<Corrupt>("{}: token {}, expected 0 to {}", shard.at(from + static_cast<std::uint64_t>(bad - tokens.begin())),
                  static_cast<std::uint32_t>(*bad), vocabulary_ - 1);
  }

  std::vector<TokenShard> shards_;
  std::uint64_t window_;  ///< tokens of a sample
  std::uint64_t stride_;
  std::int64_t vocabulary_;
};

DatasetPtr load(const std::vector<std::string>& files, const TokenOptions& options) {
  constexpr std::uint64_t kMostLength = std::numeric_limits<std::int32_t>::max() - 1;
  constexpr std::int64_t kMostVocabulary = std::numeric_limits<std::int32_t>::max();
  if (options.length == 0 || options.length > kMostLength || options.stride > kMostLength) {
    fail<InvalidArgument>("windows of {} tokens every {}: give a length from 1 to {}", options.length, options.stride,
                          kMostLength);
  }
  if (options.vocabulary < 0 || options.vocabulary > kMostVocabulary) {
    fail<InvalidArgument>("a vocabulary of {}: expected 1 to {}", options.vocabulary, kMostVocabulary);
  }
  std::vector<TokenShard> shards;
  for (const std::filesystem::path& path : expand(files)) shards.push_back(open_shard(path, options.width));
  const std::int64_t vocabulary = options.vocabulary > 0 ? options.vocabulary : find_vocabulary(shards);
  if (vocabulary > kMostVocabulary) {
    fail<Corrupt>("{}: a token of {} or more: give the vocabulary, and is a token {} bytes wide?",
                  shards.front().file.path().string(), vocabulary - 64, shards.front().width);
  }
  return std::make_shared<Tokens>(std::move(shards), options, vocabulary);
}

}  // namespace

DatasetPtr load_tokens(const std::vector<std::string>& files, const TokenOptions& options) {
  if (options.width != 2 && options.width != 4) {
    fail<InvalidArgument>("tokens of {} bytes: expected 2 or 4", options.width);
  }
  return load(files, options);
}

DatasetPtr load_text(const std::vector<std::string>& files, const TokenOptions& options) {
  TokenOptions bytes = options;
  bytes.width = 1;
  if (bytes.vocabulary == 0) bytes.vocabulary = 256;
  return load(files, bytes);
}

}  // namespace trireme::data
