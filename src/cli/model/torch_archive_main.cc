// What of `trireme ckpt export` and `import`, and of a look at TorchScript, needs LibTorch: started by the command.
#include <cstdio>
#include <exception>
#include <filesystem>
#include <new>
#include <span>

#include "base/error.h"
#include "cli/ckpt/conversion_report.h"
#include "cli/flags/check_script.h"
#include "cli/model/confinement.h"
#include "observe/text_width.h"
#include "tensor/files/torch_checkpoint.h"
#include "tensor/files/torchscript.h"

namespace trireme::cli {
namespace {

/// LibTorch's parser is not hardened: what it could do with a file that was made to harm is bounded before it starts.
void confine(const std::filesystem::path& file) {
  std::error_code unknown;
  const std::uintmax_t size = std::filesystem::file_size(file, unknown);
  const std::uint64_t bytes = unknown ? 0 : size;
  const Confinement confinement{.memory_bytes = (std::uint64_t{1} << 30) + 4 * bytes,  // its tensors, twice or thrice
                                .file_bytes = (std::uint64_t{64} << 20) + 2 * bytes,
                                .cpu = std::chrono::seconds(60 + bytes / 10'000'000)};
  if (!confine_this_process(confinement)) {
    fmt::print(stderr,
               "trireme: this kernel has no seccomp: a harmful file could do more than read and write files; import "
               "only files that you trust\n");
  }
}

void convert(std::span<char*> words) {
  const std::string verb = words.size() == 3 ? words[0] : "";
  if (verb == "export") {
    const auto opened = checkpoint::Checkpoint::open(words[1]);
    tell_exported(words[2], opened.step(), export_torch_archive(opened, words[2]));
    fmt::print(
        "the optimizer's state is not in it: continue from the checkpoint, or export to safetensors with --all\n");
  } else if (verb == "import") {
    confine(words[1]);
    tell_imported(words[2], import_torch_archive(words[1], words[2]));
  } else if (verb == "check-script") {
    const ScriptNeeds needs = nlohmann::json::parse(words[2]).get<ScriptNeeds>();
    confine(words[1]);
    try_torchscript(words[1], needs.samples, needs.task, needs.outputs);
  } else {
    fail<InvalidArgument>("this program is started by 'trireme ckpt' and 'trireme train'");
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
  } catch (const std::bad_alloc&) {
    return trireme::cli::tell(trireme::Corrupt("the file needs far more memory than its size: is it damaged?"), 1);
  } catch (const std::exception& problem) {
    return trireme::cli::tell(problem, 1);
  }
}
