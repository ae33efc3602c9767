#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace trireme::cli {

/// Numbers with a unit, as flags take them. All throw InvalidArgument that names the flag, what was given and what is
/// allowed, with an example: if the number is not finite or not above 0, or if the unit is missing or unknown. Units
/// are read in any case.

/// "24gb" is 24e9, "24gib" 24 · 2^30; kb, mb, gb, tb, kib, mib, gib, tib.
double parse_bytes(const std::string& flag, const std::string& text);

/// "100gbit" per second is 12.5e9 bytes per second; kbit, mbit, gbit, tbit, and kb, mb, gb, tb as bytes.
double parse_bandwidth(const std::string& flag, const std::string& text);

/// "20us" is 20e-6; ns, us, ms, s, min, h.
double parse_seconds(const std::string& flag, const std::string& text);

/// "100tflops" is 1e14; gflops, tflops, pflops.
double parse_flops(const std::string& flag, const std::string& text);

/// "3x224x224": whole numbers from 1 on.
std::vector<std::uint64_t> parse_shape(const std::string& flag, const std::string& text);

/// "0.02:1.5": two or more numbers from 0 on.
std::vector<double> parse_list(const std::string& flag, const std::string& text, std::size_t count,
                               const std::string& allowed);

}  // namespace trireme::cli
