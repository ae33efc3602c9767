#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <string>
#include <string_view>
#include <typeinfo>

#include "base/bytes.h"
#include "base/error.h"
#include "base/file.h"

// Shared by the fuzz targets. A target hands the bytes it is given to code that reads what others wrote. Whatever the
// bytes are, that code returns or throws one of the errors of base/error.h, and takes memory in proportion to its
// input. Anything else is a finding, and ends the program.

/// What libFuzzer and the replay call, for each input. Returns 0.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace trireme::fuzz {

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

/// Ends the program: `what` must not happen.
[[noreturn]] inline void finding(const char* what, const char* detail = "") {
  std::fprintf(stderr, "finding: %s %s\n", what, detail);
  std::abort();
}

inline void require(bool holds, const char* what) {
  if (!holds) finding(what);
}

/// Runs `body`; true if it returned, false if it threw an error of our family. Any other exception is a finding.
template <typename Body>
bool returns_or_refuses(const Body& body) {
  try {
    body();
    return true;
  } catch (const Error&) {
    return false;
  } catch (const std::exception& other) {
    std::fprintf(stderr, "an exception of type %s came out\n", typeid(other).name());
    finding("an exception that is not one of base/error.h:", other.what());
  }
}

/// Takes an input apart from the front; what is missing at its end reads as zeros.
class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : left_(text_of(data, size)) {}

  template <typename T>
  T number() {
    T value{};
    const std::string_view bytes = text(sizeof(T));
    std::memcpy(&value, bytes.data(), bytes.size());
    return value;
  }

  /// At most so many bytes.
  std::string_view text(std::size_t most) {
    const std::string_view taken = left_.substr(0, most);
    left_.remove_prefix(taken.size());
    return taken;
  }

  std::string_view rest() const { return left_; }
  bool empty() const { return left_.empty(); }

 private:
  std::string_view left_;
};

/// A file that is nowhere on disk, for code that wants a path.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view content) : file_(::memfd_create("fuzz", MFD_CLOEXEC)) {
    if (!file_) fail_errno("memfd_create");
    for (std::string_view left = content; !left.empty();) {
      const auto written = ::write(file_.get(), left.data(), left.size());
      if (written <= 0) fail_errno("cannot write to memory");
      left.remove_prefix(static_cast<std::size_t>(written));
    }
  }

  std::filesystem::path path() const { return "/proc/self/fd/" + std::to_string(file_.get()); }

 private:
  FileDescriptor file_;
};

}  // namespace trireme::fuzz
