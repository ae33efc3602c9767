#include "plan/placement.h"

#include <algorithm>
#include <utility>

#include <fmt/ranges.h>

#include "base/error.h"

namespace trireme::plan {
namespace {

constexpr std::uint32_t kMostRows = 8;  // of a picture
constexpr std::uint32_t kMostColumns = 8;

/// `group` in ascending order, so that those of a host are neighbours.
GroupSpan span_of(const Placement& placement, const std::vector<Rank>& group) {
  GroupSpan span{static_cast<std::uint32_t>(group.size()), 0, 0};
  std::uint32_t local = 0;
  for (std::size_t i = 0; i < group.size(); ++i) {
    const bool same = i > 0 && placement.host_of(group[i]) == placement.host_of(group[i - 1]);
    local = same ? local + 1 : 1;
    if (!same) ++span.hosts;
    span.most_local = std::max(span.most_local, local);
  }
  return span;
}

/// Those with more than one part, innermost first.
std::string names_of(const Mesh& mesh, const Placement::Order& order) {
  std::vector<std::string_view> names;
  for (const Dimension dimension : order) {
    if (mesh.size(dimension) > 1) names.push_back(name_of(dimension));
  }
  return fmt::format("{}", fmt::join(names, ", then "));
}

/// "tensor (2 ranks) and data (4 ranks) stay within a host; pipe (8 ranks) spans 4 hosts".
std::string describe_spans(const Mesh& mesh, const PlacedMesh& placed) {
  std::vector<std::string> inside;
  std::vector<std::string> across;
  for (const Dimension dimension : kTrainedOrder) {
    const std::uint32_t size = mesh.size(dimension);
    if (size == 1) continue;
    const GroupSpan& span = placed.span(dimension);
    if (span.within_host()) {
      inside.push_back(fmt::format("{} ({} ranks)", name_of(dimension), size));
    } else {
      across.push_back(fmt::format("{} ({} ranks) spans {} hosts", name_of(dimension), size, span.hosts));
    }
  }
  std::string text;
  if (!inside.empty()) {
    text = fmt::format("{} stay{} within a host", fmt::join(inside, " and "), inside.size() == 1 ? "s" : "");
  }
  if (!across.empty()) text += fmt::format("{}{}", text.empty() ? "" : "; ", fmt::join(across, ", "));
  return text;
}

/// "0", "0-7" for neighbours, or "0,16,32".
std::string brief(const std::vector<Rank>& ranks) {
  if (ranks.size() == 1) return fmt::format("{}", ranks.front());
  if (ranks.back() - ranks.front() + 1 == ranks.size()) return fmt::format("{}-{}", ranks.front(), ranks.back());
  if (ranks.size() <= 4) return fmt::format("{}", fmt::join(ranks, ","));
  return fmt::format("{},{},..,{}", ranks[0], ranks[1], ranks.back());
}

std::string brief_hosts(const Placement& placement, const std::vector<Rank>& ranks) {
  std::vector<Rank> hosts;
  for (const Rank rank : ranks) hosts.push_back(placement.host_of(rank));
  std::ranges::sort(hosts);
  hosts.erase(std::ranges::unique(hosts).begin(), hosts.end());
  return brief(hosts);
}

}  // namespace

Placement::Placement(const Mesh& mesh, const Order& order, std::uint32_t hosts)
    : mesh_(mesh), order_(order), hosts_(hosts) {
  if (hosts < 1 || hosts > mesh.ranks()) {
    fail<InvalidArgument>("{} ranks cannot be placed on {} hosts: at least one and at most {}", mesh.ranks(), hosts,
                          mesh.ranks());
  }
}

Rank Placement::rank_of(Coordinates coordinates) const {
  std::uint64_t rank = 0;
  for (std::size_t i = order_.size(); i-- > 0;) {
    rank = rank * mesh_.size(order_[i]) + coordinates.along(order_[i]);
  }
  return static_cast<Rank>(rank);
}

Coordinates Placement::coordinates(Rank rank) const {
  Coordinates coordinates;
  for (const Dimension dimension : order_) {
    coordinates.along(dimension) = rank % mesh_.size(dimension);
    rank /= mesh_.size(dimension);
  }
  return coordinates;
}

std::uint32_t Placement::host_of(Rank rank) const {
  const auto ranks = static_cast<std::uint32_t>(mesh_.ranks());
  const std::uint32_t least = ranks / hosts_;
  const std::uint32_t larger = ranks % hosts_;  // the first hosts hold one more
  if (rank < larger * (least + 1)) return rank / (least + 1);
  return larger + (rank - larger * (least + 1)) / least;
}

std::vector<Rank> Placement::group(Dimension dimension, Rank member) const {
  Coordinates place = coordinates(member);
  std::vector<Rank> ranks;
  for (std::uint32_t i = 0; i < mesh_.size(dimension); ++i) {
    place.along(dimension) = i;
    ranks.push_back(rank_of(place));
  }
  return ranks;
}

std::vector<std::vector<Rank>> Placement::groups(Dimension dimension) const {
  std::vector<std::vector<Rank>> all;
  for (Rank rank = 0; rank < mesh_.ranks(); ++rank) {
    if (coordinates(rank).along(dimension) == 0) all.push_back(group(dimension, rank));
  }
  return all;
}

GroupSpan Placement::widest_span(Dimension dimension) const {
  GroupSpan widest;
  for (const std::vector<Rank>& ranks : groups(dimension)) {
    const GroupSpan span = span_of(*this, ranks);
    if (span.hosts > widest.hosts || widest.ranks == 1) widest = span;
  }
  return widest;
}

PlacedMesh place_ranks(const Mesh& mesh, std::uint32_t hosts) {
  const Placement placement(mesh, kTrainedOrder, hosts);
  PlacedMesh placed;
  for (const Dimension dimension : kDimensions) {
    placed.spans[static_cast<std::size_t>(dimension)] = placement.widest_span(dimension);
  }
  const std::string spans = describe_spans(mesh, placed);
  placed.reason = spans.empty() ? "there is one rank"
                                : fmt::format("ranks count along {}: {}", names_of(mesh, kTrainedOrder), spans);
  return placed;
}

std::string picture(const Placement& placement) {
  const Mesh& mesh = placement.mesh();
  if (mesh.ranks() == 1) return fmt::format("mesh {}: one rank\n", to_text(mesh));
  std::string text =
      fmt::format("mesh {}: {} ranks on {} host{}, numbered along {}\n", to_text(mesh), mesh.ranks(), placement.hosts(),
                  placement.hosts() == 1 ? "" : "s", names_of(mesh, placement.order()));
  const std::uint32_t rows = std::min(mesh.data, kMostRows);
  const std::uint32_t columns = std::min(mesh.pipe, kMostColumns);
  const auto cell = [&](std::uint32_t data, std::uint32_t pipe) {
    const std::vector<Rank> ranks = placement.group(Dimension::kTensor, placement.rank_of({data, pipe, 0}));
    return fmt::format("{} @{}", brief(ranks), brief_hosts(placement, ranks));
  };
  std::size_t width = 7;
  for (std::uint32_t data = 0; data < rows; ++data) {
    for (std::uint32_t pipe = 0; pipe < columns; ++pipe) width = std::max(width, cell(data, pipe).size());
  }
  const auto add_row = [&](const std::string& head, const auto& cell_of) {
    std::string row = fmt::format("{:10}", head);
    for (std::uint32_t pipe = 0; pipe < columns; ++pipe) row += fmt::format("  {:{}}", cell_of(pipe), width);
    if (mesh.pipe > columns) row += "  ..";
    row.erase(row.find_last_not_of(' ') + 1);
    text += row + "\n";
  };
  add_row("", [](std::uint32_t pipe) { return fmt::format("pipe {}", pipe); });
  for (std::uint32_t data = 0; data < rows; ++data) {
    add_row(fmt::format("data {}", data), [&](std::uint32_t pipe) { return cell(data, pipe); });
  }
  if (mesh.data > rows) text += "..\n";
  return text + "Each cell: the rank, or the ranks that share a stage's layers (tensor), @ its host.\n";
}

}  // namespace trireme::plan
