#include "plan/mesh.h"

#include <charconv>
#include <set>

#include "base/error.h"
#include "base/suggest.h"

namespace trireme::plan {
namespace {

constexpr const char* kExample = "write it like data=2,pipe=4,tensor=1";

Dimension parse_dimension(std::string_view name, std::string_view text) {
  for (const Dimension dimension : kDimensions) {
    if (name == name_of(dimension)) return dimension;
  }
  fail<InvalidArgument>("mesh '{}': there is no dimension '{}'{}: it has data, pipe and tensor; {}", text, name,
                        did_you_mean(name, {"data", "pipe", "tensor"}), kExample);
}

std::uint32_t parse_size(std::string_view digits, Dimension dimension, std::string_view text) {
  std::uint32_t size = 0;
  const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), size);
  if (problem != std::errc() || end != digits.data() + digits.size() || size == 0 || size > kMostRanks) {
    fail<InvalidArgument>("mesh '{}': {}={} takes a whole number from 1 to {}", text, name_of(dimension), digits,
                          kMostRanks);
  }
  return size;
}

}  // namespace

std::string_view name_of(Dimension dimension) {
  switch (dimension) {
    case Dimension::kData:
      return "data";
    case Dimension::kPipe:
      return "pipe";
    case Dimension::kTensor:
      return "tensor";
  }
  TRIREME_CHECK(false, "dimension {}", static_cast<int>(dimension));
}

std::uint32_t Mesh::size(Dimension dimension) const {
  return dimension == Dimension::kData ? data : dimension == Dimension::kPipe ? pipe : tensor;
}

std::uint32_t& Coordinates::along(Dimension dimension) {
  return dimension == Dimension::kData ? data : dimension == Dimension::kPipe ? pipe : tensor;
}

Mesh parse_mesh(std::string_view text) {
  Coordinates sizes{1, 1, 1};
  std::set<Dimension> given;
  for (std::string_view rest = text;;) {
    const std::size_t comma = rest.find(',');
    const std::string_view part = rest.substr(0, comma);
    const std::size_t equals = part.find('=');
    if (equals == std::string_view::npos) {
      fail<InvalidArgument>("mesh '{}': '{}' has no size; {}", text, part, kExample);
    }
    const Dimension dimension = parse_dimension(part.substr(0, equals), text);
    if (!given.insert(dimension).second) {
      fail<InvalidArgument>("mesh '{}': {} is there twice; {}", text, name_of(dimension), kExample);
    }
    sizes.along(dimension) = parse_size(part.substr(equals + 1), dimension, text);
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  const Mesh mesh{sizes.data, sizes.pipe, sizes.tensor};
  const double ranks = static_cast<double>(mesh.data) * mesh.pipe * mesh.tensor;  // three sizes may overflow 64 bits
  if (ranks > static_cast<double>(kMostRanks)) {
    fail<InvalidArgument>("mesh '{}' has {:.0f} ranks: at most {}", text, ranks, kMostRanks);
  }
  return mesh;
}

std::string to_text(const Mesh& mesh) {
  return fmt::format("data={},pipe={},tensor={}", mesh.data, mesh.pipe, mesh.tensor);
}

}  // namespace trireme::plan
