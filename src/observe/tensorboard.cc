#include "observe/tensorboard.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "base/hash.h"

namespace trireme::observe {
namespace {

// Protobuf wire format, the few cases that events need: a field is a key (number * 8 + wire type) and its value.
// The messages (tensorflow/core/util/event.proto, framework/summary.proto):
//   Event   { double wall_time = 1; int64 step = 2; string file_version = 3; Summary summary = 5; }
//   Summary { repeated Value value = 1; }   Value { string tag = 1; float simple_value = 2; }

enum class Wire : std::uint32_t { kVarint = 0, kFixed64 = 1, kLength = 2, kFixed32 = 5 };

void put_varint(std::string& to, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) to += static_cast<char>(value | 0x80);
  to += static_cast<char>(value);
}

void put_key(std::string& to, std::uint32_t field, Wire wire) {
  put_varint(to, field << 3 | static_cast<std::uint32_t>(wire));
}

template <typename T>
void put_fixed(std::string& to, T value) {
  std::array<std::byte, sizeof(T)> raw;
  store_le(raw, value);
  to += as_text(raw);
}

void put_bytes(std::string& to, std::uint32_t field, std::string_view bytes) {
  put_key(to, field, Wire::kLength);
  put_varint(to, bytes.size());
  to += bytes;
}

constexpr std::uint64_t kSessionStart = 1;  // SessionLog.START

std::string event_at(double wall_time) {
  std::string event;
  put_key(event, 1, Wire::kFixed64);
  put_fixed(event, wall_time);
  return event;
}

std::string scalar_event(std::string_view tag, float value, Step step, double wall_time) {
  std::string point;
  put_bytes(point, 1, tag);
  put_key(point, 2, Wire::kFixed32);
  put_fixed(point, value);
  std::string summary;
  put_bytes(summary, 1, point);

  std::string event = event_at(wall_time);
  if (step != 0) {  // zero is the default and is omitted, as protobuf's own writer does
    put_key(event, 2, Wire::kVarint);
    put_varint(event, step);
  }
  put_bytes(event, 5, summary);
  return event;
}

/// Returns TFRecord's checksum: a CRC stored next to the data it covers is rotated and offset, so that a CRC over both
/// stays meaningful.
std::uint32_t masked_crc(std::string_view bytes) {
  const std::uint32_t crc = crc32c(as_bytes(bytes));
  return ((crc >> 15) | (crc << 17)) + 0xA282EAD8u;
}

/// Returns a TFRecord: length, checksum of the length, data, checksum of the data.
std::string record(std::string_view data) {
  std::string frame;
  frame.reserve(data.size() + 16);
  put_fixed(frame, static_cast<std::uint64_t>(data.size()));
  put_fixed(frame, masked_crc(frame));
  frame += data;
  put_fixed(frame, masked_crc(data));
  return frame;
}

float to_float(double value) {
  constexpr double kMost = std::numeric_limits<float>::max();
  if (std::abs(value) > kMost) return std::copysign(std::numeric_limits<float>::infinity(), value < 0 ? -1.0f : 1.0f);
  return static_cast<float>(value);
}

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 && name[0] != '\0' ? name.data() : "localhost";
}

/// Creates the file under the first free name; a second file in the same second gets a number.
std::pair<FileDescriptor, std::filesystem::path> create_file(const std::filesystem::path& folder,
                                                             std::string_view suffix, double wall_time) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) fail<IoError>("cannot make folder {}: {}", folder.string(), error.message());
  const std::string stem =
      fmt::format("events.out.tfevents.{:010}.{}.{}", static_cast<std::int64_t>(wall_time), host_name(), ::getpid());
  const std::string ending = suffix.empty() ? "" : fmt::format(".{}", suffix);
  for (int number = 0;; ++number) {
    const auto path = folder / (number == 0 ? stem + ending : fmt::format("{}.{}{}", stem, number, ending));
    FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0644));
    if (file) return {std::move(file), path};
    if (errno != EEXIST) fail_errno("cannot create " + path.string());
  }
}

}  // namespace

double unix_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

EventFile::EventFile(const std::filesystem::path& folder, std::string_view suffix, double wall_time)
    : EventFile(create_file(folder, suffix, wall_time), wall_time) {}

EventFile::EventFile(std::pair<FileDescriptor, std::filesystem::path> created, double wall_time)
    : path_(created.second), file_(std::move(created.first), path_, 0) {
  std::string event = event_at(wall_time);
  put_bytes(event, 3, "brain.Event:2");
  file_.append(as_bytes(record(event)));
}

void EventFile::add_scalar(std::string_view tag, double value, Step step, double wall_time) {
  file_.append(as_bytes(record(scalar_event(tag, to_float(value), step, wall_time))));
}

void EventFile::begin_after(Step step, double wall_time) {
  std::string start;
  put_key(start, 1, Wire::kVarint);
  put_varint(start, kSessionStart);
  std::string event = event_at(wall_time);
  put_key(event, 2, Wire::kVarint);
  put_varint(event, step + 1);
  put_bytes(event, 7, start);
  file_.append(as_bytes(record(event)));
}

}  // namespace trireme::observe
