#pragma once

namespace trireme::cli {

struct BenchPsOptions {
  bool json = false;   ///< one JSON object instead of tables
  bool quick = false;  ///< a quarter of the time, and noisier
};

/// Measures parameter servers on this machine and prints the result to standard output: speed of memcpy and of a raw
/// TCP stream, then push, pull and push+pull by transport, number of processes and message size, then memory, then how
/// that compares with our targets. Progress goes to standard error.
///
/// Every worker and server is a process of its own, forked from here: call it before the process has threads. None of
/// them outlives the call, or the process. Takes about a minute. Returns 0, or 1 after a message if one of them failed;
/// a target that is missed is a result, not a failure.
int bench_ps(const BenchPsOptions& options);

}  // namespace trireme::cli
