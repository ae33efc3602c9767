#pragma once

#include <exception>
#include <string>

#include <nlohmann/json.hpp>

#include "base/bytes.h"
#include "base/error.h"

namespace trireme::net {

// The body of a frame: a struct with declared fields (NLOHMANN_DEFINE_TYPE_*), written as MessagePack.

std::string encode_json(const nlohmann::json& value);

/// Throws Corrupt on garbage, on trailing bytes and on nesting deeper than any of our messages.
nlohmann::json decode_json(Bytes body);

template <typename T>
std::string encode_message(const T& message) {
  return encode_json(nlohmann::json(message));
}

/// Throws Corrupt if a field is missing or of another type; the message names it.
template <typename T>
T decode_message(Bytes body) {
  try {
    return decode_json(body).get<T>();
  } catch (const nlohmann::json::exception& problem) {
    fail<Corrupt>("a message body does not have the expected fields: {}", problem.what());
  }
}

/// The body of an error reply.
struct ErrorBody {
  std::string type;
  std::string message;
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(ErrorBody, type, message)
};

/// Our error family, by name, across the wire.
ErrorBody describe_error(const std::exception& error);
[[noreturn]] void throw_error(const ErrorBody& error);

}  // namespace trireme::net
