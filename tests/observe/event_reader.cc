#include "tests/observe/event_reader.h"

#include <bit>

#include "base/error.h"

namespace trireme::observe {
namespace {

/// CRC-32C, bit by bit, straight from its definition: not the tables that the writer uses.
std::uint32_t slow_masked_crc(std::string_view bytes) {
  std::uint32_t crc = 0xFFFFFFFF;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (crc & 1 ? 0x82F63B78u : 0);
  }
  return std::rotr(~crc, 15) + 0xA282EAD8u;
}

class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}

  bool done() const { return rest_.empty(); }

  std::string_view take(std::uint64_t count) {
    if (count > rest_.size()) fail<Corrupt>("wanted {} bytes, {} are left", count, rest_.size());
    const std::string_view taken = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return taken;
  }

  std::uint64_t fixed(std::size_t bytes) {
    std::uint64_t value = 0;
    std::size_t shift = 0;
    for (const char c : take(bytes)) {
      value |= std::uint64_t{static_cast<unsigned char>(c)} << shift;
      shift += 8;
    }
    return value;
  }

  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const std::uint64_t byte = fixed(1);
      value |= (byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
    fail<Corrupt>("a varint of over ten bytes");
  }

  std::string_view sized() { return take(varint()); }

 private:
  std::string_view rest_;
};

double as_double(std::uint64_t bits) { return std::bit_cast<double>(bits); }

ReadHistogram read_histogram(std::string_view bytes) {
  ReadHistogram histogram;
  const auto packed = [](std::string_view doubles) {
    std::vector<double> values;
    for (Reader reader(doubles); !reader.done();) values.push_back(as_double(reader.fixed(8)));
    return values;
  };
  for (Reader reader(bytes); !reader.done();) {
    switch (const std::uint64_t key = reader.varint()) {
      case 0x09:
        histogram.min = as_double(reader.fixed(8));
        break;
      case 0x11:
        histogram.max = as_double(reader.fixed(8));
        break;
      case 0x19:
        histogram.num = as_double(reader.fixed(8));
        break;
      case 0x21:
        histogram.sum = as_double(reader.fixed(8));
        break;
      case 0x29:
        histogram.sum_squares = as_double(reader.fixed(8));
        break;
      case 0x32:
        histogram.limits = packed(reader.sized());
        break;
      case 0x3A:
        histogram.buckets = packed(reader.sized());
        break;
      default:
        fail<Corrupt>("unknown key {:#x} in a histogram", key);
    }
  }
  if (histogram.limits.size() != histogram.buckets.size()) fail<Corrupt>("buckets without limits");
  return histogram;
}

/// Takes a message apart that has nothing but one field of bytes.
std::string_view only_field(std::string_view bytes, std::uint64_t key) {
  Reader reader(bytes);
  if (const std::uint64_t found = reader.varint(); found != key)
    fail<Corrupt>("key {:#x} instead of {:#x}", found, key);
  const std::string_view field = reader.sized();
  if (!reader.done()) fail<Corrupt>("more than one field");
  return field;
}

/// SummaryMetadata of the plugin "hparams".
void read_hyperparameters(std::string_view metadata, Event& event) {
  Reader plugin(only_field(metadata, 0x0A));
  if (plugin.varint() != 0x0A || plugin.sized() != "hparams") fail<Corrupt>("the data of another plugin");
  if (plugin.varint() != 0x12) fail<Corrupt>("a plugin without content");
  for (Reader session(only_field(plugin.sized(), 0x1A)); !session.done();) {
    const std::uint64_t key = session.varint();
    if (key == 0x29) {
      session.fixed(8);  // when it started
      continue;
    }
    if (key != 0x0A) fail<Corrupt>("unknown key {:#x} in a session", key);
    Reader entry(session.sized());
    if (entry.varint() != 0x0A) fail<Corrupt>("a value without a name");
    const std::string name(entry.sized());
    if (entry.varint() != 0x12) fail<Corrupt>("a name without a value");
    Reader value(entry.sized());
    const bool number = value.varint() == 0x11;
    event.hyperparameters[name] = number ? fmt::format("={}", as_double(value.fixed(8))) : std::string(value.sized());
  }
}

void read_value(std::string_view bytes, Event& event) {
  for (Reader reader(bytes); !reader.done();) {
    switch (const std::uint64_t key = reader.varint()) {
      case 0x0A:
        event.tag = reader.sized();
        break;
      case 0x15:
        event.value = std::bit_cast<float>(static_cast<std::uint32_t>(reader.fixed(4)));
        break;
      case 0x2A:
        event.histogram = read_histogram(reader.sized());
        break;
      case 0x4A:
        read_hyperparameters(reader.sized(), event);
        break;
      default:
        fail<Corrupt>("unknown key {:#x} in a value", key);
    }
  }
}

Event read_event(std::string_view bytes) {
  Event event;
  for (Reader reader(bytes); !reader.done();) {
    switch (const std::uint64_t key = reader.varint()) {
      case 0x09:
        event.wall_time = std::bit_cast<double>(reader.fixed(8));
        break;
      case 0x10:
        event.step = static_cast<std::int64_t>(reader.varint());
        break;
      case 0x1A:
        event.file_version = reader.sized();
        break;
      case 0x3A: {
        Reader session(reader.sized());
        if (session.varint() != 0x08 || session.varint() != 1)
          fail<Corrupt>("a session does something else than start");
        event.session_start = true;
        break;
      }
      case 0x2A: {
        Reader summary(reader.sized());
        if (summary.varint() != 0x0A) fail<Corrupt>("a summary holds something else than a value");
        read_value(summary.sized(), event);
        if (!summary.done()) fail<Corrupt>("more than one value");
        break;
      }
      default:
        fail<Corrupt>("unknown key {:#x} in an event", key);
    }
  }
  return event;
}

}  // namespace

std::vector<Event> read_events(std::string_view file) {
  std::vector<Event> events;
  for (Reader reader(file); !reader.done();) {
    const std::string_view length = reader.take(8);
    if (reader.fixed(4) != slow_masked_crc(length)) fail<Corrupt>("wrong checksum of a length");
    const std::string_view data = reader.take(Reader(length).fixed(8));
    if (reader.fixed(4) != slow_masked_crc(data)) fail<Corrupt>("wrong checksum of data");
    events.push_back(read_event(data));
  }
  return events;
}

}  // namespace trireme::observe
