#include "data/r/r_data.h"

#include <algorithm>
#include <bit>
#include <limits>

#include <fmt/ranges.h>

#include "base/error.h"
#include "data/files/random_access_file.h"
#include "data/r/unpack_block.h"

namespace trireme::data {
namespace {

/// Codes of R's serialize.c.
enum RType : std::uint32_t {
  kSymbol = 1,
  kPairList = 2,
  kText = 9,
  kLogicals = 10,
  kIntegers = 13,
  kReals = 14,
  kStrings = 16,
  kVector = 19,
  kAltRep = 238,
  kAttributes = 239,
  kGlobalEnv = 253,
  kNothing = 254,
  kReference = 255,
};
constexpr std::uint32_t kHasAttributes = 0x200;
constexpr std::uint32_t kHasTag = 0x400;
constexpr int kDeepest = 200;

class RReader {
 public:
  RReader(Bytes bytes, const std::string& where) : all_(bytes), where_(where) {}

  RValue read() {
    if (text(2) != "X\n") refuse("expected R data in XDR format");
    const std::uint32_t version = integer();
    integer();
    integer();
    if (version == 3) text(integer());  // the encoding of the system that wrote it
    if (version != 2 && version != 3) refuse(fmt::format("version {} of R's format", version));
    return value(0);
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const { fail<Corrupt>("{}: {} at byte {}", where_, what, at_); }

  std::string_view text(std::size_t size) {
    if (size > all_.size() - at_) refuse(fmt::format("truncated: {} more bytes expected", size));
    const std::string_view taken = as_text(all_.subspan(at_, size));
    at_ += size;
    return taken;
  }

  std::uint32_t integer() {
    std::uint32_t number = 0;
    for (const char byte : text(4)) number = number << 8 | static_cast<unsigned char>(byte);
    return number;
  }

  double real() {
    const std::uint64_t high = integer();
    return std::bit_cast<double>(high << 32 | integer());
  }

  /// How many values follow, each of at least `bytes` bytes.
  std::size_t count(std::size_t bytes) {
    const std::uint32_t claimed = integer();
    if (claimed > (all_.size() - at_) / bytes) refuse(fmt::format("truncated: {} values expected", claimed));
    return claimed;
  }

  std::string characters() {  // of one CHARSXP
    if ((integer() & 0xff) != kText) refuse("expected a text");
    const std::uint32_t size = integer();
    return size == std::numeric_limits<std::uint32_t>::max() ? "NA" : std::string(text(size));
  }

  RValue value(int depth) {
    if (depth > kDeepest) refuse("nested too deeply");
    const std::uint32_t flags = integer();
    RValue result;
    switch (flags & 0xff) {
      case kNothing:
      case kGlobalEnv:
        return result;
      case kSymbol:
        result = {.kind = RValue::Kind::kSymbol, .symbol = characters()};
        symbols_.push_back(result.symbol);
        return result;
      case kReference: {
        const std::uint32_t number = flags >> 8 != 0 ? flags >> 8 : integer();
        if (number == 0 || number > symbols_.size()) refuse(fmt::format("reference {} leads nowhere", number));
        return {.kind = RValue::Kind::kSymbol, .symbol = symbols_[number - 1]};
      }
      case kPairList:
        return pair_list(flags, depth);
      case kLogicals:
      case kIntegers:
        result.kind = RValue::Kind::kIntegers;
        for (std::size_t left = count(4); left > 0; --left) {
          result.integers.push_back(static_cast<std::int32_t>(integer()));
        }
        break;
      case kReals:
        result.kind = RValue::Kind::kReals;
        for (std::size_t left = count(8); left > 0; --left) result.reals.push_back(real());
        break;
      case kStrings:
        result.kind = RValue::Kind::kStrings;
        for (std::size_t left = count(8); left > 0; --left) result.strings.push_back(characters());
        break;
      case kVector:
        result.kind = RValue::Kind::kList;
        for (std::size_t left = count(4); left > 0; --left) result.items.push_back(value(depth + 1));
        break;
      case kAltRep:
        return compact(depth);
      default:
        refuse(fmt::format("a value of the kind {}, which is not read", flags & 0xff));
    }
    if ((flags & kHasAttributes) != 0) take_attributes(value(depth + 1), result);
    return result;
  }

  /// A list whose items may have names; iterates along it, as it may be long.
  RValue pair_list(std::uint32_t flags, int depth) {
    RValue list{.kind = RValue::Kind::kList};
    RValue names{.kind = RValue::Kind::kStrings};
    while ((flags & 0xff) == kPairList) {
      if ((flags & kHasAttributes) != 0) value(depth + 1);
      names.strings.push_back((flags & kHasTag) != 0 ? value(depth + 1).symbol : "");
      list.items.push_back(value(depth + 1));
      flags = integer();
    }
    if ((flags & 0xff) != kNothing) refuse("a list without an end");
    list.attributes.emplace_back("names", std::move(names));
    return list;
  }

  /// Values that R keeps in a shorter form: a run of integers, or one that wraps another value.
  RValue compact(int depth) {
    const RValue info = value(depth + 1);
    RValue state = value(depth + 1);
    const RValue attributes = value(depth + 1);
    const std::string kind = info.items.empty() ? "" : info.items.front().symbol;
    RValue result;
    if (kind == "compact_intseq" && state.reals.size() == 3) {
      if (!(state.reals[0] >= 0 && state.reals[0] < 1e8)) refuse("a run of integers that is too long");
      result.kind = RValue::Kind::kIntegers;
      for (double i = 0; i < state.reals[0]; ++i) {
        const double number = state.reals[1] + i * state.reals[2];
        result.integers.push_back(number > -2147483648.0 && number < 2147483648.0 ? static_cast<std::int32_t>(number)
                                                                                  : 0);
      }
    } else if (kind.starts_with("wrap_") && !state.items.empty()) {
      result = std::move(state.items.front());
    } else {
      refuse(fmt::format("a value in the form '{}', which is not read", kind));
    }
    take_attributes(attributes, result);
    return result;
  }

  static void take_attributes(RValue list, RValue& result) {
    const RValue* names = list.attribute("names");
    for (std::size_t i = 0; names != nullptr && i < list.items.size(); ++i) {
      result.attributes.emplace_back(names->strings[i], std::move(list.items[i]));
    }
  }

  Bytes all_;
  const std::string& where_;
  std::size_t at_ = 0;
  std::vector<std::string> symbols_;  // those seen so far, which later ones refer to
};

std::string read_whole(const RandomAccessFile& file) {
  std::string bytes(file.size(), '\0');
  file.read(0, std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

}  // namespace

const RValue* RValue::attribute(std::string_view name) const {
  for (const auto& [key, value] : attributes) {
    if (key == name) return &value;
  }
  return nullptr;
}

const RValue* RValue::item(std::string_view name) const {
  const RValue* names = attribute("names");
  if (names == nullptr) return nullptr;
  for (std::size_t i = 0; i < std::min(items.size(), names->strings.size()); ++i) {
    if (names->strings[i] == name) return &items[i];
  }
  return nullptr;
}

RValue parse_r(Bytes bytes, const std::string& where) { return RReader(bytes, where).read(); }

RValue load_r(const std::filesystem::path& base, const std::string& name) {
  const std::string index_path = base.string() + ".rdx";
  const std::string index_bytes = read_whole(RandomAccessFile(index_path));
  const RValue index = parse_r(as_bytes(index_bytes), index_path);
  const RValue* variables = index.item("variables");
  if (variables == nullptr) fail<Corrupt>("{}: no list of variables", index_path);
  const RValue* place = variables->item(name);
  if (place == nullptr) {
    const RValue* names = variables->attribute("names");
    fail<InvalidArgument>("{} has no '{}': it has {}", index_path, name,
                          fmt::join(names != nullptr ? names->strings : std::vector<std::string>{}, ", "));
  }
  const RandomAccessFile values(base.string() + ".rdb");
  if (place->integers.size() != 2 || place->integers[0] < 0 || place->integers[1] < 0) {
    fail<Corrupt>("{}: '{}' has no offset and length", index_path, name);
  }
  const auto offset = static_cast<std::uint64_t>(place->integers[0]);
  const auto size = static_cast<std::uint64_t>(place->integers[1]);
  if (offset > values.size() || size > values.size() - offset) {
    fail<Corrupt>("{}: truncated: '{}' has {} bytes", values.at(offset), name, size);
  }
  std::string block(size, '\0');
  values.read(offset, std::as_writable_bytes(std::span(block)));
  const std::string unpacked = unpack_r_block(as_bytes(block), values.at(offset));
  return parse_r(as_bytes(unpacked), values.at(offset));
}

}  // namespace trireme::data
