#include "cli/ckpt/conversion_report.h"

#include <fmt/format.h>

#include "observe/bench_report.h"

namespace trireme::cli {

void tell_exported(const std::filesystem::path& file, Step step, const checkpoint::ConversionReport& report) {
  fmt::print("{}: {} tensors of step {}, {}\n", file.string(), report.tensors, step, observe::as_size(report.bytes));
}

void tell_imported(const std::filesystem::path& checkpoints, const checkpoint::ConversionReport& report) {
  fmt::print("{}: {} tensors, {}\n", checkpoints.string(), report.tensors, observe::as_size(report.bytes));
  const std::string run = checkpoints.parent_path().string();
  fmt::print("to train from it:\n");
  fmt::print("  trireme train --model lenet --init {}      or the --model that it was made with\n", run);
  fmt::print("  trireme run --init {} -- ./program         a program of your own with a Trainer\n", run);
}

}  // namespace trireme::cli
