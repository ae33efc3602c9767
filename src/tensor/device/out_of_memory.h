#pragma once

#include <exception>
#include <string>

namespace trireme {

/// Returns whether memory ran out, of the host or of a GPU: LibTorch says so in words.
bool is_out_of_memory(const std::exception& problem);

/// Returns what to do about it where each worker holds the whole model, or `divided`: a part of it already.
std::string out_of_memory_advice(const std::exception& problem, bool divided);

}  // namespace trireme
