// The part of `trireme ckpt export` and `import` that needs LibTorch: started by it.
#include <cstdio>
#include <exception>
#include <span>

#include "base/error.h"
#include "cli/ckpt/conversion_report.h"
#include "observe/text_width.h"
#include "tensor/torch_checkpoint.h"

namespace trireme::cli {
namespace {

void convert(std::span<char*> words) {
  const std::string verb = words.size() == 3 ? words[0] : "";
  if (verb == "export") {
    const auto opened = checkpoint::Checkpoint::open(words[1]);
    tell_exported(words[2], opened.step(), export_torch_archive(opened, words[2]));
    fmt::print(
        "the optimizer's state is not in it: continue from the checkpoint, or export to safetensors with --all\n");
  } else if (verb == "import") {
    tell_imported(words[2], import_torch_archive(words[1], words[2]));
  } else {
    fail<InvalidArgument>("this program is started by 'trireme ckpt export' and 'trireme ckpt import'");
  }
}

/// The error may quote the file, which may contain anything.
int tell(const std::exception& problem, int status) {
  fmt::print(stderr, "trireme: {}\n", observe::printable(problem.what()));
  return status;
}

}  // namespace
}  // namespace trireme::cli

int main(int argc, char** argv) {
  try {
    trireme::cli::convert(std::span(argv, static_cast<std::size_t>(argc)).subspan(1));
    return 0;
  } catch (const trireme::InvalidArgument& problem) {
    return trireme::cli::tell(problem, 2);
  } catch (const std::exception& problem) {
    return trireme::cli::tell(problem, 1);
  }
}
