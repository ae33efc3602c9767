#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trireme::cli {

/// Returns what a NumPy file (format 1.0) begins with, before its numbers in row-major order. `dtype` as NumPy spells
/// it: "<f4", "<i8".
std::string npy_header(const std::string& dtype, const std::vector<std::uint64_t>& shape);

}  // namespace trireme::cli
