#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/error.h"

namespace trireme::checkpoint {

// A sealed JSON document, and a reader that trusts nothing in it.

/// Returns a name that comes from a file as text for a message: quoted, shortened, without control characters.
std::string shown(std::string_view name);

/// Returns {"sha256":"…","<kind>":<body>} and a newline. Throws InvalidArgument for a body that `unseal` would reject.
std::string seal(std::string_view kind, const nlohmann::json& body);

/// Returns the body after verifying its checksum. Throws Corrupt naming `origin`.
nlohmann::json unseal(std::string_view kind, std::string_view text, const std::string& origin);

/// An object of a document; reads its fields by name and type. All functions throw Corrupt that names the document, the
/// field and what was expected. Borrows both arguments.
class ObjectReader {
 public:
  ObjectReader(const nlohmann::json& object, const std::string& origin);

  template <typename... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    refuse_text(fmt::format(format, std::forward<Args>(args)...));
  }

  const nlohmann::json& at(const char* key) const;  ///< of any type
  std::uint64_t number(const char* key, std::uint64_t most = ~std::uint64_t{0}) const;
  const std::string& text(const char* key) const;
  const nlohmann::json::array_t& list(const char* key) const;
  std::vector<std::uint64_t> numbers(const char* key, std::uint64_t most) const;

 private:
  [[noreturn]] void refuse_text(const std::string& reason) const;

  const nlohmann::json& object_;
  const std::string& origin_;
};

}  // namespace trireme::checkpoint
