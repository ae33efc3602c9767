#include "observe/tensorboard.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
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
//   Summary { repeated Value value = 1; }
//   Value   { string tag = 1; float simple_value = 2; HistogramProto histo = 5; SummaryMetadata metadata = 9; }
//   HistogramProto  { double min = 1, max = 2, num = 3, sum = 4, sum_squares = 5; packed double bucket_limit = 6,
//   bucket = 7; } SummaryMetadata { PluginData plugin_data = 1; }   PluginData { string plugin_name = 1; bytes content
//   = 2; }
// and of TensorBoard's own (plugins/hparams/plugin_data.proto, google/protobuf/struct.proto):
//   HParamsPluginData { SessionStartInfo session_start_info = 3; }
//   SessionStartInfo  { map<string, Value> hparams = 1; double start_time_secs = 5; }   Value { double = 2; string = 3;
//   }

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

void put_double(std::string& to, std::uint32_t field, double value) {
  put_key(to, field, Wire::kFixed64);
  put_fixed(to, value);
}

void put_doubles(std::string& to, std::uint32_t field, const std::vector<double>& values) {
  std::string packed;
  for (const double value : values) put_fixed(packed, value);
  put_bytes(to, field, packed);
}

/// An event with one value, which has everything but its tag.
std::string value_event(std::string_view tag, std::string_view rest, Step step, double wall_time) {
  std::string value;
  put_bytes(value, 1, tag);
  value += rest;
  std::string summary;
  put_bytes(summary, 1, value);

  std::string event = event_at(wall_time);
  if (step != 0) {  // zero is the default and is omitted, as protobuf's own writer does
    put_key(event, 2, Wire::kVarint);
    put_varint(event, step);
  }
  put_bytes(event, 5, summary);
  return event;
}

std::string scalar_value(float number) {
  std::string value;
  put_key(value, 2, Wire::kFixed32);
  put_fixed(value, number);
  return value;
}

std::string histogram_value(const Histogram& histogram) {
  std::string proto;
  put_double(proto, 1, histogram.min);
  put_double(proto, 2, histogram.max);
  put_double(proto, 3, histogram.count);
  put_double(proto, 4, histogram.sum);
  put_double(proto, 5, histogram.sum_squares);
  put_doubles(proto, 6, histogram.limits);
  put_doubles(proto, 7, histogram.counts);
  std::string value;
  put_bytes(value, 5, proto);
  return value;
}

std::string hyperparameters_value(const std::map<std::string, std::string>& values, double wall_time) {
  std::string session;
  for (const auto& [name, text] : values) {
    std::string value;
    double number = 0;
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (problem == std::errc() && end == text.data() + text.size() && std::isfinite(number)) {
      put_double(value, 2, number);
    } else {
      put_bytes(value, 3, text);
    }
    std::string entry;
    put_bytes(entry, 1, name);
    put_bytes(entry, 2, value);
    put_bytes(session, 1, entry);
  }
  put_double(session, 5, wall_time);
  std::string content;
  put_bytes(content, 3, session);
  std::string plugin;
  put_bytes(plugin, 1, "hparams");
  put_bytes(plugin, 2, content);
  std::string metadata;
  put_bytes(metadata, 1, plugin);
  std::string value;
  put_bytes(value, 9, metadata);
  return value;
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
  file_.append(as_bytes(record(value_event(tag, scalar_value(to_float(value)), step, wall_time))));
}

void EventFile::add_histogram(std::string_view tag, const Histogram& histogram, Step step, double wall_time) {
  if (histogram.count == 0) return;
  file_.append(as_bytes(record(value_event(tag, histogram_value(histogram), step, wall_time))));
}

void EventFile::add_hyperparameters(const std::map<std::string, std::string>& values, double wall_time) {
  constexpr const char* kTag = "_hparams_/session_start_info";
  file_.append(as_bytes(record(value_event(kTag, hyperparameters_value(values, wall_time), 0, wall_time))));
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
