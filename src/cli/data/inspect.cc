#include "cli/data/inspect.h"

#include <algorithm>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/counted.h"
#include "base/error.h"
#include "cli/flags/numbers.h"
#include "data/files/damage.h"
#include "data/files/shards.h"
#include "data/open/source.h"
#include "observe/bench_report.h"

namespace trireme::cli {
namespace {

using observe::Json;

/// Bytes of the files that data consists of; of a folder, of all in it.
std::uint64_t bytes_of(const data::Located& located) {
  std::uint64_t bytes = 0;
  std::error_code ignored;
  for (const std::string& name : located.files) {
    const std::vector<std::string> pattern = {name};
    for (const std::filesystem::path& file : data::expand(pattern)) {
      if (!std::filesystem::is_directory(file, ignored)) {
        bytes += std::filesystem::exists(file, ignored) ? std::filesystem::file_size(file, ignored) : 0;
        continue;
      }
      for (const auto& entry : std::filesystem::recursive_directory_iterator(file, ignored)) {
        if (entry.is_regular_file(ignored)) bytes += entry.file_size(ignored);
      }
    }
  }
  return bytes;
}

Json row_of(const std::string& spec, const char* part, const data::Source& source, const data::Dataset& samples,
            std::uint64_t bytes) {
  return {{"data", spec},   {"kind", data::name_of(source.kind)},   {"part", part}, {"samples", samples.size()},
          {"bytes", bytes}, {"fields", samples.schema().describe()}};
}

void print_notes(const data::Source& source) {
  for (const std::string& note : source.notes) fmt::print(stderr, "trireme: {}\n", note);
}

}  // namespace

data::OpenOptions inspect_options(const DataInspectOptions& options) {
  data::OpenOptions result = open_options(options.flags);
  result.test.clear();
  return result;
}

int data_ls(const DataInspectOptions& options) {
  observe::BenchTable table{.key = "data",
                            .title = "",
                            .columns = {{.key = "data", .title = "data"},
                                        {.key = "kind", .title = "kind"},
                                        {.key = "part", .title = "part"},
                                        {.key = "samples", .title = "samples"},
                                        {.key = "bytes", .title = "size", .format = observe::as_size},
                                        {.key = "fields", .title = "fields of a sample"}},
                            .rows = {}};
  for (const std::string& spec : options.data) {
    const data::Source source = data::open_source(spec, inspect_options(options));
    const std::uint64_t bytes = bytes_of(data::locate(spec));
    print_notes(source);
    table.rows.push_back(row_of(spec, source.test ? "train" : "all", source, *source.samples, bytes));
    if (source.test) table.rows.push_back(row_of(spec, "test", source, *source.test, bytes));
  }
  if (options.json) {
    fmt::print("{}\n", Json{{"data", table.rows}}.dump());
  } else {
    fmt::print("{}", observe::to_text({.tables = {std::move(table)}}));
  }
  return 0;
}

int data_check(const DataInspectOptions& options) {
  bool sound = true;
  for (const std::string& spec : options.data) {
    const data::DamageReport report = data::find_damage(spec, inspect_options(options),
                                                        [](const std::string& damage) { fmt::print("{}\n", damage); });
    sound = sound && report.damaged == 0;
    if (report.damaged == 0) {
      fmt::print("{}: {} are sound\n", spec, counted(report.samples, "sample"));
    } else {
      fmt::print("{}: {} damaged, {} sound\n", spec, report.damaged, report.samples);
    }
  }
  return sound ? 0 : 1;
}

void declare_data_and_flags(CLI::App& command, DataInspectOptions& options) {
  command.add_option("data", options.data, "as --data of 'trireme train': names, folders, files or patterns")
      ->required();
  declare_shared(command, options.flags,
                 {{.name = "--data-dir"},
                  {.name = "--target"},
                  {.name = "--ignore"},
                  {.name = "--types"},
                  {.name = "--classes"},
                  {.name = "--length"},
                  {.name = "--shape"},
                  {.name = "--image-size"}});
}

void declare_data_inspect(CLI::App& data, Action& action) {
  const auto declare = [&](const char* name, const char* help, int (*run)(const DataInspectOptions&)) {
    auto* command = data.add_subcommand(name, help);
    auto options = std::make_shared<DataInspectOptions>();
    declare_data_and_flags(*command, *options);
    command->callback([options, run, &action] { action = [options, run] { return run(*options); }; });
    return std::pair(command, options);
  };
  const auto [ls, of_ls] = declare("ls", "what is in data of any kind: samples, their fields, bytes", data_ls);
  ls->add_flag("--json", of_ls->json, "print one line of JSON");
  const auto [show, of_show] = declare("show", "the first samples of data", data_show);
  add_number(*show, "-n,--samples", of_show->samples, "how many", {.least = 1, .most = 100000})->capture_default_str();
  declare("check", "read all of the data and name whatever is damaged, with file and place", data_check);
  const auto [stats, of_stats] =
      declare("stats", "least, mean, greatest, deviation, missing and classes of each field", data_stats);
  stats->add_flag("--json", of_stats->json, "print one line of JSON");
}

}  // namespace trireme::cli
