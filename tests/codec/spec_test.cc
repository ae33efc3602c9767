#include "codec/spec.h"

#include <limits>

#include <gmock/gmock.h>

#include "base/error.h"
#include "tests/codec/testing.h"
#include "tests/support/expect_fails.h"

namespace trireme::codec {
namespace {

TEST(Spec, TextRoundTrips) {
  for (const char* text : {"none", "fp16", "bf16", "int8", "1bit", "topk:0.01", "topk:1", "randomk:0.125"}) {
    EXPECT_EQ(to_string(parse_spec(text)), text);
  }
  EXPECT_EQ(parse_spec("topk:0.05"), (Spec{.kind = Kind::kTopK, .ratio = 0.05, .error_feedback = true}));
  EXPECT_EQ(to_string(parse_spec("randomk")), "randomk:0.01");
}

TEST(Spec, UnknownTextIsRefusedWithASuggestion) {
  EXPECT_FAILS(parse_spec("int9"), InvalidArgument, "'int9'", "did you mean 'int8'", "none, fp16", "topk:RATIO");
  EXPECT_FAILS(parse_spec("topc:0.1"), InvalidArgument, "did you mean 'topk'");
  EXPECT_FAILS(parse_spec(""), InvalidArgument, "unknown codec ''");
  EXPECT_FAILS(parse_spec("int8:0.1"), InvalidArgument, "takes no ratio", "'int8'");
  EXPECT_FAILS(parse_spec("topk:much"), InvalidArgument, "'much' is not a number", "topk:0.01");
  EXPECT_FAILS(parse_spec("topk:0.1x"), InvalidArgument, "'0.1x' is not a number");
  EXPECT_FAILS(parse_spec("topk:"), InvalidArgument, "'' is not a number");
  for (const char* ratio : {"0", "-0.1", "1.01", "nan", "inf"}) {
    EXPECT_FAILS(parse_spec(std::string("randomk:") + ratio), InvalidArgument, "above 0 and at most 1");
  }
}

TEST(Spec, TravelsAsJsonAndIsValidatedOnArrival) {
  for (Spec sent : kAllSpecs) {
    sent.error_feedback = sent.kind != Kind::kInt8;
    const auto received = nlohmann::json::from_msgpack(nlohmann::json::to_msgpack(nlohmann::json(sent)));
    EXPECT_EQ(received.get<Spec>(), sent);
  }
  auto json = nlohmann::json(Spec{.kind = Kind::kTopK});
  json["ratio"] = 7;
  EXPECT_FAILS(json.get<Spec>(), InvalidArgument, "ratio 7");
  json["kind"] = "zip";
  EXPECT_FAILS(json.get<Spec>(), InvalidArgument, "'zip'");
  EXPECT_THROW(nlohmann::json::object().get<Spec>(), nlohmann::json::exception);
}

TEST(Spec, HowManyValuesAreSent) {
  const auto kept = [](double ratio, std::size_t count) {
    return kept_values({.kind = Kind::kTopK, .ratio = ratio}, count);
  };
  EXPECT_EQ(kept(0.01, 0), 0);
  EXPECT_EQ(kept(0.01, 1), 1);
  EXPECT_EQ(kept(0.01, 100), 1);
  EXPECT_EQ(kept(0.01, 101), 2);
  EXPECT_EQ(kept(0.07, 100), 7);  // 0.07 * 100 is above 7 in binary
  EXPECT_EQ(kept(1, 12345), 12345);
  EXPECT_EQ(kept(1e-300, 1000), 1);
  EXPECT_EQ(kept_values({.kind = Kind::kInt8}, 1000), 1000);
  EXPECT_FAILS(kept(0.01, std::size_t{1} << 32), InvalidArgument, "too many", "topk:0.01");
  EXPECT_FAILS(kept(std::numeric_limits<double>::quiet_NaN(), 10), InvalidArgument, "ratio nan");
}

TEST(Spec, EncodedBytes) {
  const auto bytes = [](const char* text, std::size_t count) { return encoded_bytes(parse_spec(text), count); };
  EXPECT_EQ(bytes("none", 1000), 4000);
  EXPECT_EQ(bytes("fp16", 1000), 2000);
  EXPECT_EQ(bytes("bf16", 1000), 2000);
  EXPECT_EQ(bytes("int8", 1), 1 + 4);
  EXPECT_EQ(bytes("int8", kBlock), kBlock + 4);
  EXPECT_EQ(bytes("int8", kBlock + 1), kBlock + 1 + 8);
  EXPECT_EQ(bytes("1bit", 1), 1 + 8);
  EXPECT_EQ(bytes("1bit", kBlock), kBlock / 8 + 8);
  EXPECT_EQ(bytes("1bit", kBlock + 9), kBlock / 8 + 2 + 16);
  EXPECT_EQ(bytes("topk:0.01", 1000), 10 * 8);
  EXPECT_EQ(bytes("randomk:0.01", 1000), 10 * 4);
  for (const Spec& spec : kAllSpecs) EXPECT_EQ(encoded_bytes(spec, 0), 0) << to_string(spec);
}

TEST(Spec, SumsOfEncodedForms) {
  EXPECT_EQ(reducible_as({.kind = Kind::kNone}), DType::kF32);
  EXPECT_EQ(reducible_as({.kind = Kind::kF16}), DType::kF16);
  EXPECT_EQ(reducible_as({.kind = Kind::kBF16}), DType::kBF16);
  EXPECT_EQ(reducible_as({.kind = Kind::kRandomK}), DType::kF32);
  for (const Kind kind : {Kind::kInt8, Kind::kOneBit, Kind::kTopK})
    EXPECT_EQ(reducible_as({.kind = kind}), std::nullopt);
}

}  // namespace
}  // namespace trireme::codec
