// Servers hold equal parts of real models.

#include <algorithm>
#include <map>

#include <gtest/gtest.h>

#include "trireme/model.h"

#include "cluster/protocol.h"
#include "ps/layout.h"

namespace trireme {
namespace {

std::vector<ps::TableSpec> tables_of(const Model& model) {
  std::vector<ps::TableSpec> tables;
  for (const auto& item : model.module->named_parameters()) {
    tables.push_back({item.key(), static_cast<std::uint64_t>(item.value().numel())});
  }
  return tables;
}

/// The two servers' parts differ by less than one chunk.
void expect_balanced(const std::vector<ps::TableSpec>& tables) {
  const cluster::ViewInfo view = cluster::first_view(/*workers=*/1, std::vector<net::Address>(2));
  const ps::Layout layout(tables, static_cast<std::uint32_t>(view.shards.size()));
  std::uint64_t chunk = 0;
  for (const auto& each : layout.chunks()) chunk = std::max(chunk, each.place.count);
  std::map<cluster::MemberId, std::uint64_t> floats;
  for (std::uint32_t shard = 0; shard < layout.shards(); ++shard) {
    floats[view.shards[shard].primary] += layout.shard_floats(shard);
  }
  ASSERT_EQ(floats.size(), 2u);
  const std::uint64_t a = floats.begin()->second;
  const std::uint64_t b = floats.rbegin()->second;
  EXPECT_LT(std::max(a, b) - std::min(a, b), chunk);
  EXPECT_LE(chunk * sizeof(float), 1u << 20);
  EXPECT_GE(a + b, layout.worker_floats());
}

TEST(Balance, LeNetOverTwoServers) {
  expect_balanced(tables_of(make_model("lenet", {{.name = "image", .shape = {1, 28, 28}}}, 10)));
}

TEST(Balance, MlpOverTwoServers) {
  expect_balanced(tables_of(make_model("mlp", {{.name = "image", .shape = {784}}}, 10)));
}

TEST(Balance, ATableOf100MiBOverTwoServers) {
  expect_balanced({{"table", (100u << 20) / sizeof(float)}});
  expect_balanced({{"table", (100u << 20) / sizeof(float) + 1}});
}

}  // namespace
}  // namespace trireme
