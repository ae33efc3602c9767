#include <fmt/format.h>

#include "trireme/checkpoint/statistics.h"
#include "trireme/cli/bench_report.h"
#include "trireme/cli/ckpt.h"
#include "trireme/cli/table.h"

namespace trireme::cli {
namespace {

using checkpoint::Checkpoint;
using checkpoint::TensorInfo;

Json show_tensor(const Checkpoint& opened, const TensorInfo& tensor, bool quick) {
  Json row{{"name", tensor.name},
           {"dtype", name_of(tensor.dtype)},
           {"shape", tensor.shape},
           {"bytes", checkpoint::bytes_of(tensor)}};
  if (quick) return row;
  const auto measured = checkpoint::statistics(tensor.dtype, opened.read(tensor.name));
  row["mean"] = measured.mean;
  row["min"] = measured.min;
  row["max"] = measured.max;
  row["norm"] = measured.norm;
  row["not_finite"] = measured.not_finite;
  return row;
}

Json to_json(const Checkpoint& opened, bool quick) {
  const checkpoint::Manifest& manifest = opened.manifest();
  Json tensors = Json::array();
  for (const TensorInfo& tensor : opened.tensors()) tensors.push_back(show_tensor(opened, tensor, quick));
  return {{"folder", opened.folder().string()},
          {"step", manifest.step},
          {"attempt", manifest.attempt},
          {"written_ms", manifest.written_ms},
          {"bytes", opened.bytes()},
          {"parts", manifest.parts.size()},
          {"score", manifest.score ? Json(*manifest.score) : Json()},
          {"meta", manifest.meta},
          {"tensors", std::move(tensors)}};
}

void print(const Checkpoint& opened, const Json& shown, bool quick) {
  const checkpoint::Manifest& manifest = opened.manifest();
  fmt::print("{}\nstep {}, {}, {} tensors, {} parts, written {} ({} ago), attempt {}{}\n\nmeta\n",
             opened.folder().string(), manifest.step, as_size(opened.bytes()), manifest.tensors.size(),
             manifest.parts.size(), time_text(manifest.written_ms), age_text(manifest.written_ms), manifest.attempt,
             manifest.score ? fmt::format(", score {:.6g}", *manifest.score) : "");
  TableCells meta;
  const nlohmann::json flat = manifest.meta.flatten();
  for (const auto& [key, value] : flat.items()) meta.push_back({key, value.dump()});
  if (!meta.empty()) fmt::print("{}", aligned(std::move(meta), {false, false}));

  TableCells cells{{"tensor", "dtype", "shape", "size"}};
  if (!quick) cells[0].insert(cells[0].end(), {"mean", "min", "max", "norm", ""});
  for (const Json& row : shown.at("tensors")) {
    auto& line = cells.emplace_back();
    line = {row.at("name"), row.at("dtype"), shape_text(row.at("shape").get<std::vector<std::int64_t>>()),
            as_size(row.at("bytes"))};
    if (quick) continue;
    for (const char* key : {"mean", "min", "max", "norm"})
      line.push_back(fmt::format("{:.4g}", row.at(key).get<double>()));
    const auto odd = row.at("not_finite").get<std::uint64_t>();
    line.push_back(odd == 0 ? "" : fmt::format("{} not finite", odd));
  }
  fmt::print("\n{}", aligned(std::move(cells), {false, false, false, true, true, true, true, true, false}));
}

}  // namespace

int ckpt_show(const CkptShowOptions& options) {
  const Checkpoint opened = Checkpoint::open(choose(options.choice));
  const Json shown = to_json(opened, options.quick);
  if (options.json) {
    fmt::print("{}\n", shown.dump());
  } else {
    print(opened, shown, options.quick);
  }
  return 0;
}

}  // namespace trireme::cli
