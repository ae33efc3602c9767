#include "launch/k8s/yaml.h"

#include <gtest/gtest.h>

namespace trireme::launch {
namespace {

using Json = nlohmann::ordered_json;

TEST(Yaml, NestsObjectsAndLists) {
  const Json value{{"kind", "Job"},
                   {"spec", {{"parts", {{{"name", "a"}, {"on", true}}, {{"name", "b"}}}}, {"words", {"x", "y"}}}},
                   {"nothing", Json::object()},
                   {"none", Json::array()},
                   {"count", 4}};
  EXPECT_EQ(to_yaml(value), R"(kind: Job
spec:
  parts:
  - name: a
    "on": true
  - name: b
  words:
  - x
  - "y"
nothing: {}
none: []
count: 4
)");
}

TEST(Yaml, QuotesWhatCouldBeTakenForSomethingElse) {
  for (const char* text :
       {"",    "true", "No",   "null", "~",  "1",  "1e3", "0x1", "4Gi", "a: b", "a #b",       "- a", "*a", "&a", "!a",
        "{a}", "[a]",  "a\tb", "'",    "\"", "%a", "@a",  "`a",  "a ",  " a",   "2024-01-01", "=",   "<<", "a,b"}) {
    const std::string yaml = to_yaml(Json{{"k", text}});
    EXPECT_EQ(yaml, "k: " + Json(text).dump() + "\n");
  }
  for (const char* text : {"a", "Never", "batch/v1", "/runs", "registry.example/a-b"}) {
    EXPECT_EQ(to_yaml(Json{{"k", text}}), std::string("k: ") + text + "\n");
  }
  EXPECT_EQ(to_yaml(Json{{"a: b", "ä"}}), "\"a: b\": \"\\u00e4\"\n");
}

TEST(Yaml, SeveralLinesAreABlock) {
  EXPECT_EQ(to_yaml(Json{{"a", Json::array({"x", "if b\n  c: d\n\nfi\n"})}}), R"(a:
- x
- |
  if b
    c: d

  fi
)");
  EXPECT_EQ(to_yaml(Json{{"a", "x\ny"}}), "a: \"x\\ny\"\n") << "without a last newline it is quoted";
}

}  // namespace
}  // namespace trireme::launch
