// Files that nobody should have written: each is refused with Corrupt, and says why.

#include <cstring>
#include <memory>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/random.h"
#include "checkpoint/safetensors/safetensors_header.h"

namespace trireme::checkpoint {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string with_length(std::uint64_t length, std::string_view rest) {
  std::string file(8, '\0');
  std::memcpy(file.data(), &length, 8);
  return file.append(rest);
}

std::string file_of(std::string_view header, std::size_t data_bytes) {
  return with_length(header.size(), std::string(header) + std::string(data_bytes, 'd'));
}

/// Parses from a buffer of exactly the file's size, so that a read beyond it is seen by the address sanitizer.
SafetensorsContent parse(std::string_view file) {
  const auto copy = std::make_unique<std::byte[]>(file.size());
  std::memcpy(copy.get(), file.data(), file.size());
  SafetensorsContent content = parse_safetensors({copy.get(), file.size()}, "bad.safetensors");
  volatile unsigned sum = 0;  // volatile: the bytes are really read
  for (const TensorView& tensor : content.tensors) {
    for (const std::byte byte : tensor.data) sum = sum + std::to_integer<unsigned>(byte);
  }
  for (TensorView& tensor : content.tensors) tensor.data = {};
  return content;
}

void expect_refused(std::string_view file, std::string_view reason) {
  try {
    parse(file);
    ADD_FAILURE() << "accepted; expected: " << reason;
  } catch (const Corrupt& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("bad.safetensors"), HasSubstr(std::string(reason))));
    EXPECT_LT(std::strlen(error.what()), 1000u);
  }
}

TEST(HostileSafetensors, LengthOfTheHeader) {
  expect_refused("", "has 0 bytes");
  expect_refused("1234567", "has 7 bytes");
  expect_refused(with_length(3, "{}"), "claims 3 bytes, only 2 follow");
  expect_refused(with_length(100'000'001, "{}"), "at most 100000000");
  expect_refused(with_length(~0ull, "{}"), "at most 100000000");
  expect_refused(with_length(~0ull - 7, "{}"), "at most 100000000");
  expect_refused(with_length(0, ""), "must begin with '{'");
}

TEST(HostileSafetensors, RefusesInvalidHeaderJson) {
  expect_refused(file_of("[]", 0), "must begin with '{'");
  expect_refused(file_of(" {}", 0), "must begin with '{'");
  expect_refused(file_of("{", 0), "not JSON");
  expect_refused(file_of("{}}", 0), "not JSON");
  expect_refused(file_of("{}{}", 0), "not JSON");
  expect_refused(file_of("{\"\xff\":{}}", 0), "not JSON");
  expect_refused(file_of(std::string_view("{}\0garbage", 10), 0), "zero byte at 10");
  expect_refused(file_of(R"({"w":1})", 0), "'w' must be an object, not a number");
  expect_refused(file_of(R"({"w":null})", 0), "not null");
  expect_refused(file_of(R"({"w":[]})", 0), "not an array");
  expect_refused(file_of(R"({"w":{"dtype":"F32","shape":[],"data_offsets":[0,1e999]}})", 4), "not JSON");
}

TEST(HostileSafetensors, RefusesDeepNesting) {
  std::string deep = R"({"w":{"shape":)" + std::string(1'000'000, '[');
  expect_refused(file_of(deep, 0), "an array is unexpected");
  deep = "{";
  for (int i = 0; i < 100'000; ++i) deep += R"("w":{)";
  expect_refused(file_of(deep, 0), "an object is unexpected");
}

TEST(HostileSafetensors, FieldsOfATensor) {
  const auto header = [](std::string_view fields) { return file_of("{\"w\":{" + std::string(fields) + "}}", 4); };
  EXPECT_EQ(parse(header(R"("dtype":"F32","shape":[1],"data_offsets":[0,4])")).tensors.size(), 1u);
  expect_refused(header(""), "needs dtype, shape and data_offsets");
  expect_refused(header(R"("dtype":"F32","shape":[1])"), "needs dtype, shape and data_offsets");
  expect_refused(header(R"("dtype":"F31","shape":[1],"data_offsets":[0,4])"), "unknown dtype 'F31'");
  expect_refused(header(R"("dtype":32)"), "a number is unexpected in 'dtype'");
  expect_refused(header(R"("dtype":"F32","dtype":"F32")"), "a string is unexpected in 'dtype'");
  expect_refused(header(R"("shape":[1],"shape":[1])"), "an array is unexpected in 'shape'");
  expect_refused(header(R"("shape":[-1])"), "a negative number");
  expect_refused(header(R"("shape":[1.0])"), "a number with a fraction");
  expect_refused(header(R"("shape":[true])"), "true or false");
  expect_refused(header(R"("shape":["1"])"), "a string");
  expect_refused(header(R"("shape":[18446744073709551616])"), "a number with a fraction");
  expect_refused(header(R"("shape":[9223372036854775808])"), "too large");
  expect_refused(header(R"("data_offsets":[0,4,4])"), "must be two numbers");
  expect_refused(header(R"("data_offsets":[0])"), "needs dtype");
  expect_refused(header(R"("dtype":"F32","shape":[1],"data_offsets":[4])"), "must be two numbers");
  expect_refused(header(R"("colour":"red")"), "a string is unexpected in 'colour'");
  std::string many = R"("shape":[1)";
  for (int i = 0; i < 64; ++i) many += ",1";
  expect_refused(header(many + "]"), "over 64 dimensions");
}

std::string tensor(std::string_view name, std::string_view shape, std::uint64_t begin, std::uint64_t end) {
  return fmt::format(R"("{}":{{"dtype":"F32","shape":[{}],"data_offsets":[{},{}]}})", name, shape, begin, end);
}

TEST(HostileSafetensors, OffsetsCoverTheDataExactlyOnce) {
  const auto two = [](const std::string& a, const std::string& b) { return "{" + a + "," + b + "}"; };
  EXPECT_EQ(parse(file_of(two(tensor("b", "1", 4, 8), tensor("a", "1", 0, 4)), 8)).tensors[0].name, "a");
  expect_refused(file_of(two(tensor("a", "2", 0, 8), tensor("b", "1", 4, 8)), 8), "neither overlap nor leave gaps");
  expect_refused(file_of(two(tensor("a", "1", 0, 4), tensor("b", "1", 0, 4)), 4), "neither overlap nor leave gaps");
  expect_refused(file_of(two(tensor("a", "1", 0, 4), tensor("b", "1", 8, 12)), 12), "neither overlap nor leave gaps");
  expect_refused(file_of("{" + tensor("a", "1", 4, 8) + "}", 8), "begins at byte 4 of the data, expected 0");
  expect_refused(file_of("{" + tensor("a", "1", 0, 4) + "}", 5), "5 bytes of data follow");
  expect_refused(file_of("{}", 1), "1 bytes of data follow");
  expect_refused(file_of("{" + tensor("a", "2", 0, 8) + "}", 4), "do not lie within");
  expect_refused(file_of("{" + tensor("a", "1", 4, 0) + "}", 4), "do not lie within");
  expect_refused(file_of("{" + tensor("a", "1", ~0ull - 3, ~0ull) + "}", 4), "do not lie within");
}

TEST(HostileSafetensors, ShapeMustGiveTheSizeWithoutOverflow) {
  const auto shaped = [](std::string_view shape) { return file_of("{" + tensor("a", shape, 0, 4) + "}", 4); };
  expect_refused(shaped("2"), "takes 8 bytes, its data_offsets give 4");
  expect_refused(shaped("0"), "takes 0 bytes, its data_offsets give 4");
  expect_refused(shaped("4611686018427387905"), "more than 2^64");      // * 4 = 4 modulo 2^64
  expect_refused(shaped("2147483648,2147483648,4"), "more than 2^64");  // * 4 = 0 modulo 2^64
  expect_refused(shaped("9223372036854775807,9223372036854775807"), "more than 2^64");
}

TEST(HostileSafetensors, RefusesDuplicateNames) {
  expect_refused(file_of("{" + tensor("a", "1", 0, 4) + "," + tensor("a", "1", 4, 8) + "}", 8), "'a' appears twice");
  expect_refused(file_of("{" + tensor("a", "0", 0, 0) + "," + tensor("a", "0", 0, 0) + "}", 0), "'a' appears twice");
  expect_refused(file_of("{" + tensor("a", "1", 0, 4) + "," + tensor("\\u0061", "1", 4, 8) + "}", 8), "twice");
  expect_refused(file_of(R"({"__metadata__":{},"__metadata__":{}})", 0), "twice");
  expect_refused(file_of(R"({"__metadata__":{"k":"1","k":"2"}})", 0), "metadata key 'k' twice");
}

TEST(HostileSafetensors, MetadataIsTextOnly) {
  EXPECT_EQ(parse(file_of(R"({"__metadata__":{"k":"v"}}  )", 0)).metadata.at("k"), "v");
  expect_refused(file_of(R"({"__metadata__":{"k":1}})", 0), "metadata 'k' must be a string, not a number");
  expect_refused(file_of(R"({"__metadata__":{"k":{}}})", 0), "must be a string, not an object");
  expect_refused(file_of(R"({"__metadata__":"text"})", 0), "must be an object, not a string");
}

TEST(HostileSafetensors, ShortensLongNamesInMessages) {
  expect_refused(file_of("{\"" + std::string(100'000, 'n') + "\":1}", 0), "nnnn…'");
}

/// A small sound file to be spoiled.
std::string sound_file() {
  static const std::vector<std::byte> raw(64, std::byte{5});
  const std::vector<TensorView> tensors = {{"conv1.weight", DType::kF32, {2, 3}, Bytes(raw).first(24)},
                                           {"conv1.bias", DType::kF64, {}, Bytes(raw).first(8)},
                                           {"mask", DType::kBool, {4, 1}, Bytes(raw).first(4)},
                                           {"none", DType::kI64, {0, 7}, {}}};
  std::vector<const TensorView*> pointers;
  for (const TensorView& view : tensors) pointers.push_back(&view);
  std::string file = encode_header(pointers, {{"step", "500"}, {"model", "lenet"}});
  for (const TensorView& view : tensors) file += as_text(view.data);
  return file;
}

/// One random change: bits, bytes that mean something in JSON, digits, cuts, copies, and the length of the header.
void mutate_file(std::string& file, RandomStream& random) {
  static constexpr std::string_view kTelling = "{}[]\",:0123456789-eE.\\ \0ntf\xff";
  if (file.empty()) file = "{";
  const std::size_t at = random.below(file.size());
  switch (random.below(8)) {
    case 0:
      file[at] = static_cast<char>(file[at] ^ (1 << random.below(8)));
      break;
    case 1:
      file[at] = kTelling[random.below(kTelling.size())];
      break;
    case 2:
      file.insert(at, 1, kTelling[random.below(kTelling.size())]);
      break;
    case 3:
      file.erase(at, 1 + random.below(8));
      break;
    case 4:
      file.resize(at);
      break;
    case 5:
      file.insert(random.below(file.size() + 1), file.substr(at, 1 + random.below(60)));
      break;
    case 6:
      file.insert(at, std::to_string(random.next() >> random.below(64)));
      break;
    default: {
      const std::uint64_t length = random.below(2) ? random.next() >> random.below(64) : random.below(file.size() + 9);
      if (file.size() >= 8) std::memcpy(file.data(), &length, 8);
    }
  }
}

TEST(HostileSafetensors, MutationsAreParsedOrRefused) {
  const std::string sound = sound_file();
  ASSERT_EQ(parse(sound).tensors.size(), 4u);
  RandomStream random(20260301);
  int parsed = 0;
  int refused = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string file = sound;
    for (std::uint64_t changes = 1 + random.below(4); changes > 0; --changes) mutate_file(file, random);
    // Half of the time the length is put right again, so that the change reaches what lies behind that check.
    if (random.below(2) == 0 && file.size() >= 8 + 36) {
      const std::uint64_t length = file.size() - 8 - 36;
      std::memcpy(file.data(), &length, 8);
    }
    try {
      const SafetensorsContent content = parse(file);
      ++parsed;
      for (const TensorView& view : content.tensors) ASSERT_TRUE(byte_size(view.shape, view.dtype));
    } catch (const Corrupt&) {
      ++refused;
    }
  }
  EXPECT_GT(parsed, 200) << "the mutations are too coarse to reach the end of the parser";
  EXPECT_GT(refused, 10'000);
}

}  // namespace
}  // namespace trireme::checkpoint
