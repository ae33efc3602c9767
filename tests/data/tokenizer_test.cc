#include <fstream>

#include "base/error.h"
#include "base/file.h"
#include "data/text/bpe_training.h"
#include "data/text/text_stream.h"
#include "data/text/words.h"
#include "support.h"

namespace trireme::data {
namespace {

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  while (!text.empty()) {
    words.emplace_back(text.substr(0, first_word(text)));
    text.remove_prefix(words.back().size());
  }
  return words;
}

using Strings = std::vector<std::string>;

// What Python's regex module gives for GPT-2's expression.
TEST(Gpt2Words, AsTheExpressionSays) {
  EXPECT_EQ(words_of("Hello world's 42 things!!"), (Strings{"Hello", " world", "'s", " 42", " things", "!!"}));
  EXPECT_EQ(words_of("a  b"), (Strings{"a", " ", " b"}));
  EXPECT_EQ(words_of("a\n\n  b "), (Strings{"a", "\n\n ", " b", " "}));
  EXPECT_EQ(words_of("a\nb"), (Strings{"a", "\n", "b"}));
  EXPECT_EQ(words_of("a \n"), (Strings{"a", " \n"}));
  EXPECT_EQ(words_of("it'll 'twas we've"), (Strings{"it", "'ll", " '", "twas", " we", "'ve"}));
  EXPECT_EQ(words_of("naïve ２ Ⅷ 日本語。"), (Strings{"naïve", " ２", " Ⅷ", " 日本語", "。"}));
  EXPECT_EQ(words_of("\xff\xfe x"), (Strings{"\xff\xfe", " x"}));
}

TEST(Gpt2Words, CutsKeepTheWords) {
  const std::string text = "it was\n\n  the best of times, 'twas";
  for (std::size_t length = 1; length <= text.size(); ++length) {
    const std::size_t cut = last_cut(std::string_view(text).substr(0, length));
    Strings joined = words_of(text.substr(0, cut));
    for (const std::string& word : words_of(text.substr(cut))) joined.push_back(word);
    EXPECT_EQ(joined, words_of(text)) << length;
  }
}

Tokenizer trained(std::string_view text, Token vocabulary) {
  WordCounts words;
  words.add(text);
  return train_bpe(words, vocabulary);
}

std::string all_bytes() {
  std::string bytes;
  for (int i = 0; i < 65536; ++i) bytes += static_cast<char>((i * 7919) >> (i % 9));
  return bytes;
}

TEST(Bpe, LearnsTheMostFrequentPairsFirst) {
  const Tokenizer tokenizer = trained("low low low low lower lower newest newest newest newest widest", 262);
  EXPECT_EQ(tokenizer.size(), 262u);
  EXPECT_EQ(tokenizer.piece(256), "lo");  // 6 times, like "ow" and " l": the smaller numbers win
  const std::vector<Token> tokens = tokenizer.encode("low newest");
  EXPECT_EQ(tokenizer.decode(tokens), "low newest");
  EXPECT_LT(tokens.size(), 10u);
}

TEST(Bpe, RepeatedLettersAreJoinedFromTheLeft) {
  const Tokenizer tokenizer = trained("aaaaa aaaaa aaaaa", 258);
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("aaaaaaa")), "aaaaaaa");
  EXPECT_EQ(tokenizer.piece(256), "aa");
}

TEST(Bpe, StopsWhenNoPairOccursTwice) { EXPECT_EQ(trained("abc", 1000).size(), 256u); }

TEST(Bpe, AnyBytesSurvive) {
  const std::string bytes = all_bytes();
  for (const Tokenizer& tokenizer : {Tokenizer(), trained(bytes, 700)}) {
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(bytes)), bytes);
    EXPECT_EQ(tokenizer.decode(tokenizer.encode("")), "");
  }
  const std::string long_word(200000, 'a');
  EXPECT_EQ(trained("aaaa aaaa", 300).decode(trained("aaaa aaaa", 300).encode(long_word)), long_word);
}

TEST(Bpe, SavedAndLoadedIsTheSame) {
  const TempFolder folder;
  const std::string text = all_bytes();
  const Tokenizer tokenizer = trained(text, 600);
  tokenizer.save(folder / "t.json");
  const Tokenizer again = Tokenizer::load(folder / "t.json");
  EXPECT_EQ(again.size(), tokenizer.size());
  EXPECT_EQ(again.encode(text), tokenizer.encode(text));
}

TEST(Bpe, RefusesDamagedFiles) {
  const TempFolder folder;
  const auto load = [&](const std::string& content) { return Tokenizer::load(folder.write("t.json", content)); };
  const std::string path = (folder / "t.json").string();
  EXPECT_FAILS(Tokenizer::load(folder / "none"), IoError, "none");
  EXPECT_FAILS(load(""), Corrupt, path, "parse error");
  EXPECT_FAILS(load(R"({"format": "else"})"), Corrupt, path, "trireme-bpe");
  EXPECT_FAILS(load(R"({"format": "trireme-bpe", "bytes": [1, 2]})"), Corrupt, path, "2 tokens for the 256 bytes");
  Tokenizer().save(folder / "t.json");
  std::string sound = read_file(folder / "t.json");
  const std::string merges = "\"merges\":[";
  sound.insert(sound.find(merges) + merges.size(), "[1,400,256]");
  EXPECT_FAILS(load(sound), Corrupt, path, "merge 0 joins 1 and 400");
  EXPECT_FAILS(train_bpe({}, 100), InvalidArgument, "256 to 65536");
  EXPECT_FAILS(Tokenizer().decode(std::vector<Token>{256}), InvalidArgument, "token 256");
}

/// GPT-2's files in small: the bytes in its order, "he", "ll", and the end of text.
class Gpt2Files : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string vocabulary = "{";
    int next = 0;
    int beyond = 256;
    for (int pass = 0; pass < 2; ++pass) {  // printable ones first
      for (int byte = 0; byte < 256; ++byte) {
        const bool printable = (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
        if (printable != (pass == 0)) continue;
        vocabulary += fmt::format("{}\"\\u{:04x}\": {}", next > 0 ? ", " : "", printable ? byte : beyond++, next);
        ++next;
      }
    }
    vocabulary += R"(, "he": 256, "ll": 257, "\u0120he": 258, "<|endoftext|>": 259})";
    folder_.write("vocab.json", vocabulary);
    folder_.write("merges.txt", "#version: 0.2\nh e\nl l\n\u0120 he\n");
  }
  TempFolder folder_;
};

TEST_F(Gpt2Files, AreRead) {
  for (const auto& path : {folder_.path(), folder_ / "vocab.json"}) {
    const Tokenizer tokenizer = Tokenizer::load(path);
    EXPECT_EQ(tokenizer.size(), 260u);
    EXPECT_EQ(tokenizer.special("<|endoftext|>"), 259u);
    EXPECT_EQ(tokenizer.encode("hell he!"), (std::vector<Token>{256, 257, 258, 0}));
    EXPECT_EQ(tokenizer.encode("<|endoftext|>").size(), 13u) << "text stays text";
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(all_bytes())), all_bytes());
    tokenizer.save(folder_ / "own.json");
    EXPECT_EQ(Tokenizer::load(folder_ / "own.json").encode("hell he!"), (std::vector<Token>{256, 257, 258, 0}));
  }
}

TEST_F(Gpt2Files, DamageHasFileAndLine) {
  folder_.write("merges.txt", "#version: 0.2\nh e\nl x\n");
  EXPECT_FAILS(Tokenizer::load(folder_.path()), Corrupt, (folder_ / "merges.txt").string() + ", line 3", "l x");
  folder_.write("vocab.json", R"({"a": 0})");
  EXPECT_FAILS(Tokenizer::load(folder_.path()), Corrupt, "byte 0 is no token");
}

TEST(TextPieces, AreTheWholeTextOfAllFiles) {
  const TempFolder folder;
  std::string first;
  for (int i = 0; first.size() < 9'000'000; ++i) first += fmt::format("word{} ", i);
  const std::string second = gzipped("the end");
  TextStream stream({folder.write("a", first), folder.write("b", second), folder.write("c", "")});
  std::string joined;
  int ended = 0;
  for (std::string_view piece = stream.next(); !piece.empty(); piece = stream.next()) {
    joined += piece;
    ended += stream.file_ended() ? 1 : 0;
  }
  EXPECT_EQ(joined.size(), first.size() + 7);
  EXPECT_TRUE(joined == first + "the end");
  EXPECT_EQ(ended, 2);
}

TEST(TextPieces, StopBeforeALimit) {
  const TempFolder folder;
  TextStream stream({folder.write("a", "one two three four")});
  EXPECT_EQ(stream.next(9), "one two");
  EXPECT_EQ(stream.offset(), 7u);
  EXPECT_EQ(stream.next(), " three four");
}

}  // namespace
}  // namespace trireme::data
