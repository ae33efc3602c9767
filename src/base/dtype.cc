#include <array>

#include "trireme/types.h"

#include "base/error.h"

namespace trireme {
namespace {

struct Entry {
  DType dtype;
  std::string_view name;
  std::size_t size;
};

constexpr std::array kEntries = {
    Entry{DType::kF32, "F32", 4},   Entry{DType::kF64, "F64", 8}, Entry{DType::kF16, "F16", 2},
    Entry{DType::kBF16, "BF16", 2}, Entry{DType::kI8, "I8", 1},   Entry{DType::kU8, "U8", 1},
    Entry{DType::kI16, "I16", 2},   Entry{DType::kI32, "I32", 4}, Entry{DType::kI64, "I64", 8},
    Entry{DType::kBool, "BOOL", 1},
};

const Entry& entry_of(DType dtype) {
  for (const Entry& entry : kEntries) {
    if (entry.dtype == dtype) return entry;
  }
  check_failed("dtype is one of DType", fmt::format("got {}", static_cast<int>(dtype)), __FILE__, __LINE__);
}

}  // namespace

std::size_t size_of(DType dtype) { return entry_of(dtype).size; }

std::string_view name_of(DType dtype) { return entry_of(dtype).name; }

std::optional<DType> dtype_from_name(std::string_view name) {
  for (const Entry& entry : kEntries) {
    if (entry.name == name) return entry.dtype;
  }
  return std::nullopt;
}

}  // namespace trireme
