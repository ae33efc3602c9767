#include "data/classes.h"

#include <type_traits>

#include "base/error.h"

namespace trireme::data {
namespace {

template <typename T>
void check_values(const Field& field, std::span<const std::byte> bytes, std::string_view where) {
  const std::size_t elements = field.elements();
  const std::span values(reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::int64_t limit = field.limit(i % elements);
    if (values[i] >= 0 && static_cast<std::int64_t>(values[i]) < limit) continue;
    fail<InvalidArgument>("{}: sample {} has {} {}, expected 0 to {}", where, i / elements, field.name, values[i],
                          limit - 1);
  }
}

}  // namespace

void check_classes(const Field& field, std::span<const std::byte> bytes, std::string_view where) {
  if (field.classes.empty()) return;
  switch (field.dtype) {
    case DType::kI64:
      return check_values<std::int64_t>(field, bytes, where);
    case DType::kI32:
      return check_values<std::int32_t>(field, bytes, where);
    case DType::kI16:
      return check_values<std::int16_t>(field, bytes, where);
    case DType::kI8:
      return check_values<std::int8_t>(field, bytes, where);
    case DType::kU8:
      return check_values<std::uint8_t>(field, bytes, where);
    default:
      return;
  }
}

}  // namespace trireme::data
