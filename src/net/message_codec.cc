#include "net/message_codec.h"

namespace trireme::net {
namespace {

constexpr int kMaxDepth = 16;  // our deepest message has 4 levels; a hostile one must not exhaust the stack

using Json = nlohmann::json;

/// Builds the value as usual, but stops at kMaxDepth. (The parser recurses into arrays; refusing here ends it.)
class BoundedDepth : public nlohmann::detail::json_sax_dom_parser<Json> {
 public:
  using Base = nlohmann::detail::json_sax_dom_parser<Json>;
  using Base::Base;

  bool start_object(std::size_t size) { return ++depth_ <= kMaxDepth && Base::start_object(size); }
  bool end_object() { return --depth_, Base::end_object(); }
  bool start_array(std::size_t size) { return ++depth_ <= kMaxDepth && Base::start_array(size); }
  bool end_array() { return --depth_, Base::end_array(); }

 private:
  int depth_ = 0;
};

}  // namespace

std::string encode_json(const nlohmann::json& value) {
  std::string bytes;
  nlohmann::json::to_msgpack(value, nlohmann::detail::output_adapter<char>(bytes));
  return bytes;
}

nlohmann::json decode_json(Bytes body) {
  Json value;
  BoundedDepth builder(value, /*allow_exceptions=*/false);
  const auto* begin = reinterpret_cast<const char*>(body.data());
  bool parsed = false;
  try {
    parsed = Json::sax_parse(begin, begin + body.size(), &builder, Json::input_format_t::msgpack, /*strict=*/true);
  } catch (const Json::exception&) {
    parsed = false;  // such as an array that claims more elements than can exist
  }
  if (!parsed) fail<Corrupt>("a message body of {} bytes is not valid MessagePack", body.size());
  return value;
}

ErrorBody describe_error(const std::exception& error) {
  const auto is = [&](auto* type) { return dynamic_cast<decltype(type)>(&error) != nullptr; };
  std::string type = "Error";
  if (is(static_cast<const PeerLost*>(nullptr))) type = "PeerLost";
  if (is(static_cast<const Timeout*>(nullptr))) type = "Timeout";
  if (is(static_cast<const StaleView*>(nullptr))) type = "StaleView";
  if (is(static_cast<const InvalidArgument*>(nullptr))) type = "InvalidArgument";
  if (is(static_cast<const Corrupt*>(nullptr))) type = "Corrupt";
  if (is(static_cast<const Unauthenticated*>(nullptr))) type = "Unauthenticated";
  if (is(static_cast<const IoError*>(nullptr))) type = "IoError";
  return {type, error.what()};
}

void throw_error(const ErrorBody& error) {
  if (error.type == "PeerLost") throw PeerLost(error.message);
  if (error.type == "Timeout") throw Timeout(error.message);
  if (error.type == "StaleView") throw StaleView(error.message);
  if (error.type == "InvalidArgument") throw InvalidArgument(error.message);
  if (error.type == "Corrupt") throw Corrupt(error.message);
  if (error.type == "Unauthenticated") throw Unauthenticated(error.message);
  if (error.type == "IoError") throw IoError(error.message);
  throw Error(error.message);
}

}  // namespace trireme::net
