// Manifests and indexes that nobody should have written, with seals that are right: each is refused with Corrupt.

#include <cstring>
#include <functional>

#include "base/error.h"
#include "base/hash.h"
#include "checkpoint/document.h"
#include "checkpoint/verify.h"
#include "tests/checkpoint/faulty_file_system.h"
#include "tests/checkpoint/testing.h"
#include "tests/support/expect_fails.h"

namespace trireme::checkpoint {
namespace {

using nlohmann::json;

std::string sealed(std::string_view kind, std::string_view body) {
  Sha256 hash;
  hash.add(as_bytes(body));
  return fmt::format("{{\"sha256\":\"{}\",\"{}\":{}}}\n", hash.hex(), kind, body);
}

json sound_manifest() {
  return json::parse(encode(Manifest{.step = 3,
                                     .attempt = "view-1",
                                     .score = 0.5,
                                     .tensors = {{"w", DType::kF32, {2}}, {"b", DType::kI64, {}}},
                                     .parts = {{.bytes = 16, .index_sha256 = std::string(64, 'a')}},
                                     .meta = {{"x", 1}}}))
      .at("manifest");
}

json sound_index() {
  return json::parse(encode(PartIndex{.step = 3,
                                      .attempt = "view-1",
                                      .parts = 1,
                                      .block_bytes = 10,
                                      .bytes = 16,
                                      .pieces = {{"w", 0, 8}, {"b", 0, 8}},
                                      .crcs = {1, 2}}))
      .at("index");
}

Manifest read_manifest(const json& body) { return parse_manifest(sealed("manifest", body.dump()), "manifest.json"); }
PartIndex read_index(const json& body) { return parse_part_index(sealed("index", body.dump()), "part.json"); }

/// `change` is made to a sound document, which is then refused with `reason`.
void expect_bad_manifest(const std::function<void(json&)>& change, const std::string& reason) {
  json body = sound_manifest();
  change(body);
  EXPECT_FAILS(read_manifest(body), Corrupt, "manifest.json", reason);
}
void expect_bad_index(const std::function<void(json&)>& change, const std::string& reason) {
  json body = sound_index();
  change(body);
  EXPECT_FAILS(read_index(body), Corrupt, "part.json", reason);
}

TEST(HostileManifest, ReadsValidManifests) {
  EXPECT_EQ(read_manifest(sound_manifest()).tensors[1].dtype, DType::kI64);
  EXPECT_EQ(read_index(sound_index()).pieces[1].tensor, "b");
}

TEST(HostileManifest, RefusesMissingFieldsAndWrongTypes) {
  const json manifest = sound_manifest();
  for (const auto& [key, value] : manifest.items()) {
    expect_bad_manifest([&, &key = key](json& body) { body.erase(key); }, "'" + key + "' is missing");
    if (key == "meta") continue;
    for (const json& wrong : {json(true), json(-1), json(1.5), json::object(), json("x")}) {
      if (key == "score" && wrong.is_number()) continue;
      if (key == "attempt" && wrong.is_string()) continue;
      expect_bad_manifest([&, &key = key](json& body) { body[key] = wrong; }, "'" + key + "' must be");
    }
  }
  const json index = sound_index();
  for (const auto& [key, value] : index.items()) {
    expect_bad_index([&, &key = key](json& body) { body.erase(key); }, "'" + key + "' is missing");
    for (const json& wrong : {json(), json(-1), json(1.5), json::object()}) {
      expect_bad_index([&, &key = key](json& body) { body[key] = wrong; }, "'" + key + "' must be");
    }
  }
}

TEST(HostileManifest, ValuesBeyondReasonAreRefused) {
  expect_bad_manifest([](json& body) { body["format"] = 2; }, "format 2");
  expect_bad_manifest([](json& body) { body["attempt"] = "../../etc"; }, "not a plain name");
  expect_bad_manifest([](json& body) { body["attempt"] = ""; }, "not a plain name");
  expect_bad_manifest([](json& body) { body["parts"] = json::array(); }, "0 parts");
  expect_bad_manifest([](json& body) { body["parts"][0]["index_sha256"] = "../up"; }, "not a SHA-256");
  expect_bad_manifest([](json& body) { body["tensors"][0]["dtype"] = "F31"; }, "unknown dtype 'F31'");
  expect_bad_manifest([](json& body) { body["tensors"][0]["shape"] = {~0ull}; }, "at most");
  expect_bad_manifest([](json& body) { body["tensors"][0]["shape"] = {-1}; }, "whole numbers");
  expect_bad_manifest([](json& body) { body["tensors"][0]["shape"] = {1ull << 62, 16}; }, "impossibly large");
  expect_bad_manifest(
      [](json& body) {
        body["tensors"][0]["shape"] = {1ull << 61, 1};
        body["tensors"][1]["shape"] = {1ull << 60};
      },
      "impossibly large");
  expect_bad_manifest([](json& body) { body["tensors"][0]["shape"] = std::vector<int>(65, 1); }, "over 64 dimensions");
  expect_bad_manifest([](json& body) { body["tensors"][1]["name"] = "w"; }, "'w' appears twice");
  expect_bad_manifest([](json& body) { body["tensors"][1] = 7; }, "an object was expected");
  expect_bad_index([](json& body) { body["part"] = 1; }, "part 1 of 1");
  expect_bad_index([](json& body) { body["parts"] = 1u << 31; }, "at most");
  expect_bad_index([](json& body) { body["block_bytes"] = 0; }, "no bytes");
  expect_bad_index([](json& body) { body["block_bytes"] = 1ull << 40; }, "at most");
  expect_bad_index([](json& body) { body["bytes"] = 1ull << 60; }, "pieces have 16 bytes");
  expect_bad_index([](json& body) { body["pieces"][0]["length"] = 0; }, "0 bytes");
  expect_bad_index([](json& body) { body["pieces"][0]["offset"] = ~0ull; }, "bytes from");
  expect_bad_index([](json& body) { body["pieces"][0]["length"] = ~0ull - 3; }, "no end");
  expect_bad_index([](json& body) { body["crc32c"].push_back(3); }, "3 checksums for 2 blocks");
  expect_bad_index([](json& body) { body["crc32c"][0] = 1ull << 32; }, "at most");
}

TEST(HostileManifest, TextThatIsNotASealedDocument) {
  const auto refuse = [](const std::string& text, const std::string& reason) {
    EXPECT_FAILS(parse_manifest(text, "manifest.json"), Corrupt, "manifest.json", reason);
  };
  refuse("", "0 bytes");
  refuse("{}\n", "too few");
  refuse(std::string(1000, 'x'), "does not begin and end");
  refuse(sealed("index", "{}"), "too few");
  refuse(sealed("index", sound_manifest().dump()), "does not begin and end");
  refuse(sealed("manifest", "{} {}"), "not JSON");
  refuse(sealed("manifest", "{\"format\":1e999}"), "not JSON");
  refuse(sealed("manifest", "{\"format\":NaN}"), "not JSON");
  refuse(sealed("manifest", "{\"\xff\":1}"), "not JSON");
  refuse(sealed("manifest", "[]"), "an object was expected");
  refuse(sealed("manifest", "null"), "an object was expected");
  refuse(sealed("manifest", std::string("{}\0", 3)), "zero byte");
  refuse(sealed("manifest", std::string(1'000'000, '[')), "nested too deeply");
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += "{\"meta\":";
  refuse(sealed("manifest", deep), "nested too deeply");
  std::string wrong = sealed("manifest", sound_manifest().dump());
  wrong[wrong.size() - 5] ^= 1;
  refuse(wrong, "SHA-256");
}

TEST(HostileManifest, ShortensLongNamesInMessages) {
  json body = sound_manifest();
  body["tensors"][0]["dtype"] = std::string(100'000, 'n');
  try {
    read_manifest(body);
    ADD_FAILURE();
  } catch (const Corrupt& problem) {
    EXPECT_LT(std::strlen(problem.what()), 1000u);
  }
}

/// A checkpoint on disk whose index says what a test wants it to say, with everything else made to fit.
class ForgedTest : public ::testing::Test {
 protected:
  void SetUp() override {
    FaultyFileSystem files;
    ASSERT_TRUE(write_state({.folder = folder_.path(), .files = &files}, small_state(1), 1).complete);
  }

  void forge(const std::function<void(PartIndex&, Manifest&)>& change) const {
    PartIndex index = parse_part_index(read_file(path_ / "part-0-of-1.1.json"), "");
    Manifest manifest = parse_manifest(read_file(path_ / "manifest.json"), "");
    change(index, manifest);
    const std::string text = encode(index);
    Sha256 hash;
    hash.add(as_bytes(text));
    manifest.parts[0] = {.bytes = index.bytes, .index_sha256 = hash.hex()};
    overwrite(path_ / "part-0-of-1.1.json", text);
    overwrite(path_ / "manifest.json", encode(manifest));
  }

  const TempFolder folder_;
  const std::filesystem::path path_ = step_path(folder_.path(), 1);
};

TEST_F(ForgedTest, PiecesThatOverlapAreRefused) {
  forge([](PartIndex& index, Manifest&) { index.pieces = {{"model/w", 0, 24}, {"model/w", 4, 10}}; });
  EXPECT_FAILS(Checkpoint::open(path_), Corrupt, "byte 4 of 'model/w' is in part 0 and again in part 0");
}

TEST_F(ForgedTest, PiecesBeyondTheirTensorAreRefused) {
  forge([](PartIndex& index, Manifest&) { index.pieces = {{"model/w", 1ull << 62, 24}, {"model/b", 0, 10}}; });
  EXPECT_FAILS(Checkpoint::open(path_), Corrupt, "'model/w', which has 24");
  forge([](PartIndex& index, Manifest&) { index.pieces = {{"model/w", 0, 24}, {"/etc/passwd", 0, 10}}; });
  EXPECT_FAILS(Checkpoint::open(path_), Corrupt, "'/etc/passwd', which is not among the tensors");
}

TEST_F(ForgedTest, ATensorLargerThanAllFilesTakesNoMemory) {
  forge([](PartIndex&, Manifest& manifest) { manifest.tensors[0].shape = {1ll << 50}; });
  EXPECT_FAILS(Checkpoint::open(path_), Corrupt, "of 'model/w' are in no part");
}

TEST_F(ForgedTest, AnIndexThatClaimsMoreThanTheFileHasIsRefused) {
  forge([](PartIndex& index, Manifest& manifest) {
    manifest.tensors[0].shape = {1 << 20};
    index.pieces[0].length = index.pieces[0].tensor == "model/w" ? 4 << 20 : 10;
    index.pieces[1].length = index.pieces[1].tensor == "model/w" ? 4 << 20 : 10;
    index.bytes = (4 << 20) + 10;
    index.block_bytes = 64 << 20;
  });
  EXPECT_FAILS(Checkpoint::open(path_), Corrupt, "has 34 bytes, expected 4194314");
}

/// One random change of a text: bits, bytes that mean something in JSON, digits, cuts and copies.
void mutate(std::string& text, RandomStream& random) {
  static constexpr std::string_view kTelling = "{}[]\",:0123456789-eE.\\ \0ntf\xff";
  if (text.empty()) text = "{";
  const std::size_t at = random.below(text.size());
  switch (random.below(7)) {
    case 0:
      text[at] = static_cast<char>(text[at] ^ (1 << random.below(8)));
      break;
    case 1:
      text[at] = kTelling[random.below(kTelling.size())];
      break;
    case 2:
      text.insert(at, 1, kTelling[random.below(kTelling.size())]);
      break;
    case 3:
      text.erase(at, 1 + random.below(8));
      break;
    case 4:
      text.insert(random.below(text.size() + 1), text.substr(at, 1 + random.below(60)));
      break;
    case 5:
      text.insert(at, std::to_string(random.next() >> random.below(64)));
      break;
    default:
      text.resize(at);
  }
}

TEST(HostileManifest, MutationsAreParsedOrRefused) {
  const std::string manifest = sound_manifest().dump();
  const std::string index = sound_index().dump();
  RandomStream random(20260302);
  int parsed = 0;
  int refused = 0;
  for (int round = 0; round < 20'000; ++round) {
    const bool is_manifest = random.below(2) == 0;
    std::string body = is_manifest ? manifest : index;
    for (std::uint64_t changes = 1 + random.below(3); changes > 0; --changes) mutate(body, random);
    std::string text = sealed(is_manifest ? "manifest" : "index", body);
    if (random.below(8) == 0) mutate(text, random);
    try {
      if (is_manifest) {
        for (const TensorInfo& tensor : parse_manifest(text, "m").tensors) bytes_of(tensor);
      } else {
        const PartIndex read = parse_part_index(text, "i");
        ASSERT_LE(read.crcs.size(), text.size());
      }
      ++parsed;
    } catch (const Corrupt&) {
      ++refused;
    }
  }
  EXPECT_GT(parsed, 200) << "the mutations are too coarse to reach the end of the parser";
  EXPECT_GT(refused, 10'000);
}

TEST_F(ForgedTest, MutatedCheckpointsAreOpenedOrRefused) {
  const auto sound = files_in(path_);
  const json index = json::parse(sound.at("part-0-of-1.1.json")).at("index");
  RandomStream random(20260303);
  int opened = 0;
  int refused = 0;
  for (int round = 0; round < 1500; ++round) {
    std::string body = index.dump();
    for (std::uint64_t changes = 1 + random.below(2); changes > 0; --changes) mutate(body, random);
    const std::string text = sealed("index", body);
    Sha256 hash;
    hash.add(as_bytes(text));
    Manifest manifest = parse_manifest(sound.at("manifest.json"), "");
    manifest.parts[0].index_sha256 = hash.hex();
    overwrite(path_ / "part-0-of-1.1.json", text);
    overwrite(path_ / "manifest.json", encode(manifest));
    try {
      const Checkpoint checkpoint = Checkpoint::open(path_);
      ++opened;
      for (const TensorInfo& tensor : checkpoint.tensors()) checkpoint.read(tensor.name);
    } catch (const Corrupt&) {
      ++refused;
    }
    verify(path_);
  }
  EXPECT_GT(opened, 5);
  EXPECT_GT(refused, 500);
}

}  // namespace
}  // namespace trireme::checkpoint
