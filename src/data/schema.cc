#include "trireme/schema.h"

#include <algorithm>
#include <cctype>

#include <fmt/ranges.h>

#include "base/error.h"
#include "base/suggest.h"
#include "data/shape.h"

namespace trireme::data {
namespace {

bool whole_numbers(DType dtype) {
  switch (dtype) {
    case DType::kI8:
    case DType::kU8:
    case DType::kI16:
    case DType::kI32:
    case DType::kI64:
      return true;
    default:
      return false;
  }
}

void check(const Field& field) {
  if (field.name.empty()) fail<InvalidArgument>("a field of a sample has no name");
  if (std::ranges::count(field.shape, kVaries) > (field.varies() ? 1 : 0)) {
    fail<InvalidArgument>("field '{}' of {}: only the first extent can vary", field.name, shape_text(field.shape));
  }
  const std::size_t elements = field.elements();
  if (field.classes.empty()) return;
  if (!whole_numbers(field.dtype)) {
    fail<InvalidArgument>("field '{}' has classes, but its numbers are {}: classes are whole numbers", field.name,
                          name_of(field.dtype));
  }
  if (field.classes.size() != 1 && field.classes.size() != elements) {
    fail<InvalidArgument>("field '{}' has {} limits of classes for {} numbers: give one for all, or one for each",
                          field.name, field.classes.size(), elements);
  }
  if (std::ranges::any_of(field.classes, [](std::int64_t limit) { return limit < 1; })) {
    fail<InvalidArgument>("field '{}' has no classes: at least one is needed", field.name);
  }
}

}  // namespace

std::size_t Field::elements() const {
  const std::span fixed = std::span(shape).subspan(varies() ? 1 : 0);
  return fixed.empty() ? 1 : shape_elements(fixed);
}

std::int64_t Field::limit(std::size_t i) const {
  if (classes.empty()) return 0;
  return classes.size() == 1 ? classes.front() : classes[i];
}

std::string Field::describe() const {
  std::string text = name;
  const bool usual = dtype == DType::kF32 || (dtype == DType::kI64 && !classes.empty());
  if (!usual) {
    std::string type(name_of(dtype));
    std::ranges::transform(type, type.begin(), [](unsigned char c) { return std::tolower(c); });
    text += " " + type;
  }
  if (!shape.empty()) text += " " + shape_text(shape);
  if (classes.size() == 1) text += fmt::format(" of {} classes", classes.front());
  if (classes.size() > 1) text += fmt::format(" of {} classes", fmt::join(classes, ", "));
  return text;
}

Schema::Schema(std::vector<Field> fields) {
  for (std::size_t i = 0; i < fields.size(); ++i) {
    check(fields[i]);
    for (std::size_t j = 0; j < i; ++j) {
      if (fields[j].name == fields[i].name) fail<InvalidArgument>("two fields are named '{}'", fields[i].name);
    }
  }
  fields_ = std::make_shared<const std::vector<Field>>(std::move(fields));
}

std::optional<std::size_t> Schema::find(std::string_view name) const {
  const auto found = std::ranges::find(fields(), name, &Field::name);
  if (found == fields().end()) return std::nullopt;
  return static_cast<std::size_t>(found - fields().begin());
}

std::size_t Schema::index_of(std::string_view name) const {
  if (const auto found = find(name)) return *found;
  std::vector<std::string> names;
  for (const Field& field : fields()) names.push_back(field.name);
  fail<InvalidArgument>("a sample has no field '{}'{}; it has: {}", name, did_you_mean(std::string(name), names),
                        fmt::join(names, ", "));
}

std::vector<std::size_t> Schema::with(Role role) const {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < size(); ++i) {
    if (fields()[i].role == role) found.push_back(i);
  }
  return found;
}

Schema Schema::replaced(std::size_t field, Field by) const {
  std::vector<Field> all(fields().begin(), fields().end());
  all[field] = std::move(by);
  return all;
}

std::string Schema::describe() const {
  std::string text;
  for (const Field& field : fields()) text += (text.empty() ? "" : ", ") + field.describe();
  return text;
}

bool Schema::operator==(const Schema& other) const {
  return fields_ == other.fields_ || std::ranges::equal(fields(), other.fields());
}

}  // namespace trireme::data
