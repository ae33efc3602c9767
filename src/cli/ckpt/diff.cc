#include <set>

#include <fmt/format.h>

#include "checkpoint/statistics.h"
#include "cli/ckpt/commands.h"
#include "observe/bench_report.h"
#include "observe/table.h"
#include "observe/text_width.h"

namespace trireme::cli {
namespace {

using checkpoint::Checkpoint;
using checkpoint::TensorInfo;

/// A tensor that both have.
observe::Json compare(const Checkpoint& a, const Checkpoint& b, const TensorInfo& in_a, const TensorInfo& in_b) {
  observe::Json row{{"name", in_a.name}};
  if (in_a != in_b) {
    row["a"] = fmt::format("{} {}", name_of(in_a.dtype), shape_text(in_a.shape));
    row["b"] = fmt::format("{} {}", name_of(in_b.dtype), shape_text(in_b.shape));
    return row;
  }
  const auto gap = checkpoint::difference(in_a.dtype, a.read(in_a.name), b.read(in_b.name));
  if (gap.differing == 0) return {};
  row["max_abs_difference"] = gap.largest;
  row["differing"] = gap.differing;
  row["elements"] = checkpoint::bytes_of(in_a) / size_of(in_a.dtype);
  return row;
}

/// Fields of meta that are not the same, by path.
observe::Json compare_meta(const nlohmann::json& a, const nlohmann::json& b) {
  const nlohmann::json flat_a = a.flatten();
  const nlohmann::json flat_b = b.flatten();
  std::set<std::string> keys;
  for (const auto* flat : {&flat_a, &flat_b}) {
    for (const auto& [key, value] : flat->items()) keys.insert(key);
  }
  observe::Json rows = observe::Json::array();
  for (const std::string& key : keys) {
    const auto field = [&](const nlohmann::json& flat) {
      return flat.contains(key) ? observe::Json(flat.at(key)) : observe::Json("(none)");
    };
    if (field(flat_a) != field(flat_b)) rows.push_back({{"field", key}, {"a", field(flat_a)}, {"b", field(flat_b)}});
  }
  return rows;
}

void print_difference(const observe::Json& report) {
  const auto line = [](const std::string& text) { fmt::print("{}\n", observe::printable(text)); };
  if (report.at("identical")) return line("identical");
  for (const observe::Json& row : report.at("meta")) {
    line(fmt::format("meta {}: {} | {}", row.at("field").get<std::string>(), row.at("a").dump(), row.at("b").dump()));
  }
  for (const observe::Json& name : report.at("only_in_a")) line(fmt::format("only in a: {}", name.get<std::string>()));
  for (const observe::Json& name : report.at("only_in_b")) line(fmt::format("only in b: {}", name.get<std::string>()));
  observe::TableCells cells{{"tensor", "max abs difference", "elements that differ"}};
  for (const observe::Json& row : report.at("tensors")) {
    if (row.contains("a")) {
      cells.push_back({row.at("name"), row.at("a").get<std::string>() + " | " + row.at("b").get<std::string>(), "all"});
    } else {
      cells.push_back({row.at("name"), fmt::format("{:.6g}", row.at("max_abs_difference").get<double>()),
                       fmt::format("{} of {}", row.at("differing").dump(), row.at("elements").dump())});
    }
  }
  if (cells.size() > 1) fmt::print("{}", observe::aligned(std::move(cells), {false, true, true}));
}

}  // namespace

int ckpt_diff(const CkptDiffOptions& options) {
  const Checkpoint a = Checkpoint::open(choose(options.a));
  const Checkpoint b = Checkpoint::open(choose(options.b));
  observe::Json report{{"a", a.folder().string()}, {"b", b.folder().string()}, {"identical", false}};
  report["meta"] = compare_meta(a.meta(), b.meta());
  report["only_in_a"] = observe::Json::array();
  report["only_in_b"] = observe::Json::array();
  report["tensors"] = observe::Json::array();
  for (const TensorInfo& tensor : a.tensors()) {
    const TensorInfo* other = b.find(tensor.name);
    if (other == nullptr) {
      report["only_in_a"].push_back(tensor.name);
    } else if (observe::Json row = compare(a, b, tensor, *other); !row.is_null()) {
      report["tensors"].push_back(std::move(row));
    }
  }
  for (const TensorInfo& tensor : b.tensors()) {
    if (a.find(tensor.name) == nullptr) report["only_in_b"].push_back(tensor.name);
  }
  const bool identical =
      report["meta"].empty() && report["only_in_a"].empty() && report["only_in_b"].empty() && report["tensors"].empty();
  report["identical"] = identical;
  if (options.json) {
    fmt::print("{}\n", report.dump());
  } else {
    print_difference(report);
  }
  return identical ? 0 : 1;
}

}  // namespace trireme::cli
