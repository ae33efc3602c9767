#include "checkpoint/document.h"

#include <algorithm>

#include "base/hash.h"
#include "checkpoint/format.h"

namespace trireme::checkpoint {
namespace {

constexpr int kMaxDepth = 64;  // writing JSON is recursive: depth costs stack

std::string sha256(std::string_view text) {
  Sha256 hash;
  hash.add(as_bytes(text));
  return hash.hex();
}

std::string opening(std::string_view kind, std::string_view digest) {
  return fmt::format(R"({{"sha256":"{}","{}":)", digest, kind);
}

constexpr std::string_view kClosing = "}\n";
constexpr std::size_t kDigits = 64;

int depth_of(const nlohmann::json& value, int above = 0) {
  int deepest = above;
  if (!value.is_structured() || above > kMaxDepth) return deepest;
  for (const auto& inner : value) deepest = std::max(deepest, depth_of(inner, above + 1));
  return deepest;
}

[[noreturn]] void refuse_document(const std::string& origin, const std::string& reason) {
  fail<Corrupt>("{} is damaged: {}; use another checkpoint (trireme ckpt ls) or copy this one again", origin, reason);
}

}  // namespace

std::string shown(std::string_view name) {
  constexpr std::size_t kMost = 80;
  std::string text(name.substr(0, kMost));
  std::ranges::replace_if(
      text, [](unsigned char c) { return c < 0x20 || c == 0x7f; }, '?');
  return fmt::format("'{}{}'", text, name.size() > kMost ? "…" : "");
}

std::string seal(std::string_view kind, const nlohmann::json& body) {
  if (depth_of(body) > kMaxDepth) {
    fail<InvalidArgument>("a checkpoint's {} is nested more than {} deep; flatten its meta", kind, kMaxDepth);
  }
  std::string text;
  try {
    text = body.dump();
  } catch (const nlohmann::json::exception&) {
    fail<InvalidArgument>("a checkpoint's {} holds text that is not UTF-8: look at its names and meta", kind);
  }
  if (text.size() > kMaxDocumentBytes / 2) {
    fail<InvalidArgument>(
        "a checkpoint's {} would take {} bytes, at most {} can be read again: keep large things in "
        "tensors, not in meta",
        kind, text.size(), kMaxDocumentBytes / 2);
  }
  return opening(kind, sha256(text)).append(text).append(kClosing);
}

nlohmann::json unseal(std::string_view kind, std::string_view text, const std::string& origin) {
  const std::string begin = opening(kind, std::string(kDigits, '0'));
  const std::size_t digits_at = begin.find("000");
  if (text.size() < begin.size() + kClosing.size()) {
    refuse_document(origin, fmt::format("it has {} bytes, too few to be a {}", text.size(), kind));
  }
  const std::string_view digest = text.substr(digits_at, kDigits);
  if (text.substr(0, begin.size()) != opening(kind, digest) || !text.ends_with(kClosing)) {
    refuse_document(origin, fmt::format("it does not begin and end as a sealed {} does", kind));
  }
  const std::string_view body = text.substr(begin.size(), text.size() - begin.size() - kClosing.size());
  if (const std::string found = sha256(body); found != digest) {
    refuse_document(origin, fmt::format("the SHA-256 of its content is {}…, expected {}…", found.substr(0, 12),
                                        shown(digest.substr(0, 12))));
  }
  // The JSON reader takes a zero byte for the end of its input and would ignore what follows.
  if (body.find('\0') != body.npos)
    refuse_document(origin, fmt::format("zero byte at {}", begin.size() + body.find('\0')));
  try {
    return nlohmann::json::parse(body.begin(), body.end(),
                                 [&](int depth, nlohmann::json::parse_event_t, const nlohmann::json&) {
                                   if (depth > kMaxDepth) refuse_document(origin, "it is nested too deeply");
                                   return true;
                                 });
  } catch (const nlohmann::json::exception&) {
    refuse_document(origin, "its content is not JSON");
  }
}

ObjectReader::ObjectReader(const nlohmann::json& object, const std::string& origin) : object_(object), origin_(origin) {
  if (!object.is_object()) refuse("an object was expected, not {}", object.type_name());
}

void ObjectReader::refuse_text(const std::string& reason) const { refuse_document(origin_, reason); }

const nlohmann::json& ObjectReader::at(const char* key) const {
  const auto found = object_.find(key);
  if (found == object_.end()) refuse("'{}' is missing", key);
  return *found;
}

std::uint64_t ObjectReader::number(const char* key, std::uint64_t most) const {
  const nlohmann::json& value = at(key);
  if (!value.is_number_unsigned()) refuse("'{}' must be a whole number, not {}", key, value.type_name());
  const auto number = value.get<std::uint64_t>();
  if (number > most) refuse("'{}' is {}, at most {} is possible", key, number, most);
  return number;
}

const std::string& ObjectReader::text(const char* key) const {
  const nlohmann::json& value = at(key);
  if (!value.is_string()) refuse("'{}' must be a text, not {}", key, value.type_name());
  return value.get_ref<const std::string&>();
}

const nlohmann::json::array_t& ObjectReader::list(const char* key) const {
  const nlohmann::json& value = at(key);
  if (!value.is_array()) refuse("'{}' must be a list, not {}", key, value.type_name());
  return value.get_ref<const nlohmann::json::array_t&>();
}

std::vector<std::uint64_t> ObjectReader::numbers(const char* key, std::uint64_t most) const {
  std::vector<std::uint64_t> values;
  for (const nlohmann::json& value : list(key)) {
    if (!value.is_number_unsigned()) refuse("'{}' must hold whole numbers, not {}", key, value.type_name());
    values.push_back(value.get<std::uint64_t>());
    if (values.back() > most) refuse("'{}' holds {}, at most {} is possible", key, values.back(), most);
  }
  return values;
}

}  // namespace trireme::checkpoint
