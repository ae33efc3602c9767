#pragma once

#include <charconv>
#include <cstddef>
#include <limits>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace trireme::bench {

/// The command line of a benchmark's rank: pairs `--name value`, each name at most once.
class Arguments {
 public:
  /// Throws std::invalid_argument for anything that is not such a pair.
  Arguments(int argc, char** argv) {
    for (int i = 1; i < argc; i += 2) {
      const std::string_view name = argv[i];
      if (!name.starts_with("--") || i + 1 == argc || !values_.try_emplace(std::string(name), argv[i + 1]).second) {
        throw std::invalid_argument("cannot use argument '" + std::string(name) +
                                    "': write pairs '--name value', each name once");
      }
    }
  }

  /// Throws std::invalid_argument when it is missing.
  const std::string& text(const std::string& name) const {
    const auto found = values_.find(name);
    if (found == values_.end()) throw std::invalid_argument("argument " + name + " is missing");
    return found->second;
  }

  /// One of `words`; the first when it is missing. Throws std::invalid_argument for any other.
  std::string choice(const std::string& name, const std::vector<std::string>& words) const {
    const std::string chosen = values_.contains(name) ? text(name) : words.front();
    std::string known;
    for (const std::string& word : words) {
      if (word == chosen) return chosen;
      known += (known.empty() ? "" : ", ") + word;
    }
    throw std::invalid_argument(name + " is one of " + known + ", not '" + chosen + "'");
  }

  /// Throws std::invalid_argument when it is missing or not a whole number.
  std::size_t number(const std::string& name) const { return to_number(name, text(name)); }

  /// `--bytes 4096,1048576`: sizes of float32 buffers. Throws std::invalid_argument.
  std::vector<std::size_t> sizes(const std::string& name) const {
    std::vector<std::size_t> sizes;
    std::string_view left = text(name);
    for (bool more = true; more;) {
      const std::size_t comma = left.find(',');
      more = comma != std::string_view::npos;
      sizes.push_back(to_number(name, left.substr(0, comma)));
      if (sizes.back() == 0 || sizes.back() % sizeof(float) != 0 || sizes.back() / sizeof(float) > kMostElements) {
        throw std::invalid_argument(name + " takes multiples of 4 from 4 to 8589934588: up to 2^31 - 1 times float32");
      }
      if (more) left.remove_prefix(comma + 1);
    }
    return sizes;
  }

 private:
  static constexpr std::size_t kMostElements = std::numeric_limits<int>::max();  // MPI and gloo count in int

  static std::size_t to_number(const std::string& name, std::string_view text) {
    std::size_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size()) {
      throw std::invalid_argument(name + " takes whole numbers, not '" + std::string(text) + "'");
    }
    return number;
  }

  std::map<std::string, std::string> values_;
};

}  // namespace trireme::bench
