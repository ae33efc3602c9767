#pragma once

// What a sample consists of.

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/types.h"

namespace trireme::data {

/// What a field is for.
enum class Role {
  kInput,   ///< goes into the model, in the order of the schema
  kTarget,  ///< what the model should say
  kOther,   ///< for a task of one's own: weights, identifiers
};

constexpr std::int64_t kVaries = -1;  ///< the first extent of a field that differs in length from sample to sample

/// One named part of every sample.
struct Field {
  std::string name = {};
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape = {};  ///< of one sample: {1, 28, 28}; {} = a single number; the first may be kVaries
  Role role = Role::kInput;
  std::vector<std::int64_t> classes = {};     ///< whole numbers that name things: each is below this; one limit for all
                                              ///< elements, or one for each. Empty = a quantity
  std::vector<std::string> class_names = {};  ///< what the numbers name, if anybody knows; else empty
  double padding = 0;                         ///< behind the end of a sample that is shorter than others of its batch

  bool operator==(const Field&) const = default;

  bool varies() const { return !shape.empty() && shape.front() == kVaries; }
  std::size_t elements() const;             ///< numbers per sample; of one that varies, per unit of length
  std::int64_t limit(std::size_t i) const;  ///< the classes of element `i`; 0 = a quantity

  /// Returns `image 1x28x28`, `label of 10 classes`, `tokens i32 257 of 50257 classes`: the type unless it is the
  /// usual.
  std::string describe() const;
};

/// The fields of a sample. Immutable; copies are cheap.
class Schema {
 public:
  Schema() = default;

  /// Throws InvalidArgument if a name is empty or occurs twice, or a shape or its classes make no sense.
  Schema(std::vector<Field> fields);  // NOLINT(google-explicit-constructor): a list of fields is one
  Schema(std::initializer_list<Field> fields) : Schema(std::vector<Field>(fields)) {}

  std::size_t size() const { return fields().size(); }
  std::span<const Field> fields() const {
    return fields_ ? std::span<const Field>(*fields_) : std::span<const Field>();
  }
  const Field& operator[](std::size_t field) const { return fields()[field]; }

  std::optional<std::size_t> find(std::string_view name) const;

  /// Returns where `name` is. Throws InvalidArgument that lists the names there are.
  std::size_t index_of(std::string_view name) const;

  /// The fields of this role, in order.
  std::vector<std::size_t> with(Role role) const;

  /// The same with one field replaced.
  Schema replaced(std::size_t field, Field by) const;

  std::string describe() const;

  bool operator==(const Schema& other) const;

 private:
  std::shared_ptr<const std::vector<Field>> fields_;
};

}  // namespace trireme::data
