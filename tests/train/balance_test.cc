// Servers hold equal parts of real models.

#include <algorithm>

#include <gtest/gtest.h>

#include "trireme/models/model.h"
#include "trireme/ps/layout.h"

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
  const ps::Layout layout(tables, 2);
  std::uint64_t chunk = 0;
  for (const auto& each : layout.chunks()) chunk = std::max(chunk, each.place.count);
  const std::uint64_t a = layout.server_floats(0);
  const std::uint64_t b = layout.server_floats(1);
  EXPECT_LT(std::max(a, b) - std::min(a, b), chunk);
  EXPECT_LE(chunk * sizeof(float), 1u << 20);
  EXPECT_GE(a + b, layout.worker_floats());
}

TEST(Balance, LeNetOverTwoServers) { expect_balanced(tables_of(make_model("lenet", {1, 28, 28}, 10))); }

TEST(Balance, MlpOverTwoServers) { expect_balanced(tables_of(make_model("mlp", {784}, 10))); }

TEST(Balance, ATableOf100MiBOverTwoServers) {
  expect_balanced({{"table", (100u << 20) / sizeof(float)}});
  expect_balanced({{"table", (100u << 20) / sizeof(float) + 1}});
}

}  // namespace
}  // namespace trireme
