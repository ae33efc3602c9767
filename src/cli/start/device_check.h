#pragma once

#include <string>

#include "cli/start/training.h"

namespace trireme::cli {

/// Throws InvalidArgument if this machine's LibTorch, which `program` is linked with, has no such device as --device
/// names. Asks a process of the program: this one has no LibTorch, or should not take hold of a GPU.
void check_device_here(const std::string& device, const WorkerProgram& program);

}  // namespace trireme::cli
