#include "data/records/example.h"

#include "base/error.h"

namespace trireme::data {
namespace {

enum Wire : unsigned { kVarint = 0, kFixed64 = 1, kLengthPrefixed = 2, kFixed32 = 5 };

/// Reads the wire format of protocol buffers from front to back.
class WireReader {
 public:
  explicit WireReader(Bytes bytes) : left_(bytes), size_(bytes.size()) {}

  bool empty() const { return left_.empty(); }

  /// Reads the next field's number and type.
  void next() {
    const std::uint64_t tag = varint();
    number_ = tag >> 3;
    wire_ = tag & 7;
  }
  std::uint64_t number() const { return number_; }
  unsigned wire() const { return static_cast<unsigned>(wire_); }

  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      if (left_.empty()) refuse("a number is cut short");
      const auto byte = std::to_integer<std::uint64_t>(left_.front());
      left_ = left_.subspan(1);
      value |= (byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    refuse("a number of more than 64 bits");
  }

  Bytes bytes() {
    const std::uint64_t size = varint();
    if (size > left_.size()) refuse("a field is longer than what holds it");
    return take(static_cast<std::size_t>(size));
  }

  Bytes take(std::size_t size) {
    if (size > left_.size()) refuse("a field is cut short");
    const Bytes taken = left_.first(size);
    left_ = left_.subspan(size);
    return taken;
  }

  /// Passes over the value of a field that nobody asked for.
  void skip() {
    switch (wire_) {
      case kVarint:
        varint();
        return;
      case kFixed64:
        take(8);
        return;
      case kLengthPrefixed:
        bytes();
        return;
      case kFixed32:
        take(4);
        return;
      default:
        refuse("a field of an unknown type");
    }
  }

 private:
  [[noreturn]] void refuse(const char* what) const {
    fail<Corrupt>("no tf.train.Example: {} ({} of {} bytes into a part of it)", what, size_ - left_.size(), size_);
  }

  Bytes left_;
  std::size_t size_;
  std::uint64_t number_ = 0;
  std::uint64_t wire_ = 0;
};

Feature parse_feature(Bytes message) {
  Feature feature;
  for (WireReader reader(message); !reader.empty();) {
    reader.next();
    if (reader.wire() == kLengthPrefixed && reader.number() >= 1 && reader.number() <= 3) {
      feature = {.kind = static_cast<Feature::Kind>(reader.number()), .list = reader.bytes()};
    } else {
      reader.skip();
    }
  }
  return feature;
}

void parse_entry(Bytes message, const std::function<void(std::string_view, const Feature&)>& take) {
  std::string_view name;
  Feature feature;
  for (WireReader reader(message); !reader.empty();) {
    reader.next();
    if (reader.wire() == kLengthPrefixed && reader.number() == 1) {
      name = as_text(reader.bytes());
    } else if (reader.wire() == kLengthPrefixed && reader.number() == 2) {
      feature = parse_feature(reader.bytes());
    } else {
      reader.skip();
    }
  }
  take(name, feature);
}

/// Calls `values` with each run of values of a list: packed ones at once, others one by one; `count` of them in
/// `bytes`.
template <typename Values>
void walk(const Feature& feature, const Values& values) {
  if (feature.kind == Feature::Kind::kNone) return;
  for (WireReader reader(feature.list); !reader.empty();) {
    reader.next();
    const unsigned single = feature.kind == Feature::Kind::kFloat   ? kFixed32
                            : feature.kind == Feature::Kind::kInt64 ? kVarint
                                                                    : kLengthPrefixed;
    if (reader.number() != 1) {
      reader.skip();
    } else if (reader.wire() == kLengthPrefixed) {
      values(reader.bytes());
    } else if (reader.wire() == single && single == kFixed32) {
      values(reader.take(4));
    } else if (reader.wire() == single) {
      const std::uint64_t value = reader.varint();
      std::byte again[10];  // as a packed list would hold it
      std::size_t size = 0;
      for (std::uint64_t rest = value;; rest >>= 7) {
        again[size++] = static_cast<std::byte>((rest & 0x7f) | (rest > 0x7f ? 0x80 : 0));
        if (rest <= 0x7f) break;
      }
      values(Bytes(again, size));
    } else {
      reader.skip();
    }
  }
}

}  // namespace

const char* name_of(Feature::Kind kind) {
  switch (kind) {
    case Feature::Kind::kBytes:
      return "bytes";
    case Feature::Kind::kFloat:
      return "float";
    case Feature::Kind::kInt64:
      return "int64";
    case Feature::Kind::kNone:
      break;
  }
  return "nothing";
}

void parse_example(Bytes record, const std::function<void(std::string_view, const Feature&)>& take) {
  for (WireReader reader(record); !reader.empty();) {
    reader.next();
    if (reader.number() != 1 || reader.wire() != kLengthPrefixed) {
      reader.skip();
      continue;
    }
    for (WireReader features(reader.bytes()); !features.empty();) {
      features.next();
      if (features.number() == 1 && features.wire() == kLengthPrefixed) {
        parse_entry(features.bytes(), take);
      } else {
        features.skip();
      }
    }
  }
}

std::size_t count_values(const Feature& feature) {
  std::size_t count = 0;
  walk(feature, [&](Bytes run) {
    if (feature.kind == Feature::Kind::kBytes) {
      count += run.size();
    } else if (feature.kind == Feature::Kind::kFloat) {
      if (run.size() % sizeof(float) != 0) fail<Corrupt>("no tf.train.Example: {} bytes of floats", run.size());
      count += run.size() / sizeof(float);
    } else {
      for (WireReader reader(run); !reader.empty(); ++count) reader.varint();
    }
  });
  return count;
}

void copy_values(const Feature& feature, std::byte* out) {
  walk(feature, [&](Bytes run) {
    if (feature.kind == Feature::Kind::kInt64) {
      for (WireReader reader(run); !reader.empty(); out += sizeof(std::int64_t)) {
        const std::uint64_t value = reader.varint();
        std::memcpy(out, &value, sizeof(value));
      }
    } else if (!run.empty()) {
      std::memcpy(out, run.data(), run.size());
      out += run.size();
    }
  });
}

}  // namespace trireme::data
