#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

namespace trireme::cli {

/// Runs trireme-torch-archive, the program that reads files of LibTorch, and returns its exit status. This keeps
/// LibTorch out of this program, and a file that crashes LibTorch's parser, or keeps it busy for longer than `time`,
/// only ends that one. What it says goes to `log`; empty: to our standard output and error. Throws Corrupt if it
/// crashes, Timeout, and InvalidArgument if there is no such program.
int run_torch_archive(const std::vector<std::string>& arguments, const std::string& file,
                      std::chrono::milliseconds time, const std::filesystem::path& log = {});

}  // namespace trireme::cli
