#include "base/error.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <system_error>

namespace trireme {

void fail_errno(const std::string& what) {
  const int code = errno;
  throw IoError(what + ": " + std::generic_category().message(code));
}

void check_failed(const char* condition, const std::string& message, const char* file, int line) {
  fmt::print(stderr, "{}:{}: bug: check failed: {}{}{}\n", file, line, condition, message.empty() ? "" : ": ", message);
  std::fflush(stderr);
  std::abort();
}

}  // namespace trireme
