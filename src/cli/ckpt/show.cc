#include <fmt/format.h>

#include "checkpoint/statistics.h"
#include "cli/ckpt/commands.h"
#include "observe/bench_report.h"
#include "observe/table.h"

namespace trireme::cli {
namespace {

using checkpoint::Checkpoint;
using checkpoint::TensorInfo;

observe::Json show_tensor(const Checkpoint& opened, const TensorInfo& tensor, bool quick) {
  observe::Json row{{"name", tensor.name},
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

observe::Json to_json(const Checkpoint& opened, bool quick) {
  const checkpoint::Manifest& manifest = opened.manifest();
  observe::Json tensors = observe::Json::array();
  for (const TensorInfo& tensor : opened.tensors()) tensors.push_back(show_tensor(opened, tensor, quick));
  return {{"folder", opened.folder().string()},
          {"step", manifest.step},
          {"attempt", manifest.attempt},
          {"written_ms", manifest.written_ms},
          {"bytes", opened.bytes()},
          {"parts", manifest.parts.size()},
          {"score", manifest.score ? observe::Json(*manifest.score) : observe::Json()},
          {"meta", manifest.meta},
          {"tensors", std::move(tensors)}};
}

void print(const Checkpoint& opened, const observe::Json& shown, bool quick) {
  const checkpoint::Manifest& manifest = opened.manifest();
  fmt::print("{}\nstep {}, {}, {} tensors, {} parts, written {} ({} ago), attempt {}{}\n\nmeta\n",
             opened.folder().string(), manifest.step, observe::as_size(opened.bytes()), manifest.tensors.size(),
             manifest.parts.size(), time_text(manifest.written_ms), age_text(manifest.written_ms), manifest.attempt,
             manifest.score ? fmt::format(", score {:.6g}", *manifest.score) : "");
  observe::TableCells meta;
  const nlohmann::json flat = manifest.meta.flatten();
  for (const auto& [key, value] : flat.items()) meta.push_back({key, value.dump()});
  if (!meta.empty()) fmt::print("{}", observe::aligned(std::move(meta), {false, false}));

  observe::TableCells cells{{"tensor", "dtype", "shape", "size"}};
  if (!quick) cells[0].insert(cells[0].end(), {"mean", "min", "max", "norm", ""});
  for (const observe::Json& row : shown.at("tensors")) {
    auto& line = cells.emplace_back();
    line = {row.at("name"), row.at("dtype"), shape_text(row.at("shape").get<std::vector<std::int64_t>>()),
            observe::as_size(row.at("bytes"))};
    if (quick) continue;
    for (const char* key : {"mean", "min", "max", "norm"})
      line.push_back(fmt::format("{:.4g}", row.at(key).get<double>()));
    const auto odd = row.at("not_finite").get<std::uint64_t>();
    line.push_back(odd == 0 ? "" : fmt::format("{} not finite", odd));
  }
  fmt::print("\n{}", observe::aligned(std::move(cells), {false, false, false, true, true, true, true, true, false}));
}

}  // namespace

int ckpt_show(const CkptShowOptions& options) {
  const Checkpoint opened = Checkpoint::open(choose(options.choice));
  const observe::Json shown = to_json(opened, options.quick);
  if (options.json) {
    fmt::print("{}\n", shown.dump());
  } else {
    print(opened, shown, options.quick);
  }
  return 0;
}

}  // namespace trireme::cli
