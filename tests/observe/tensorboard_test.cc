#include "observe/tensorboard.h"

#include <unistd.h>

#include <cmath>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "tests/observe/event_reader.h"
#include "tests/support/temp_folder.h"

namespace trireme::observe {
namespace {

using namespace std::string_literals;
using ::testing::EndsWith;
using ::testing::StartsWith;

/// The data of each record, without lengths and checksums.
std::vector<std::string> payloads(const std::string& file) {
  std::vector<std::string> found;
  for (std::size_t at = 0; at < file.size();) {
    const auto length = load_le<std::uint64_t>(as_bytes(file).subspan(at));
    found.push_back(file.substr(at + 12, length));
    at += 16 + length;
  }
  return found;
}

TEST(EventFile, AResumedRunSaysWhichStepsAreMadeAgain) {
  const TempFolder folder;
  EventFile file(folder.path());
  file.begin_after(300);
  const std::vector<Event> events = read_events(read_file(file.path()));
  ASSERT_EQ(events.size(), 2u);
  EXPECT_TRUE(events[1].session_start);
  EXPECT_EQ(events[1].step, 301) << "TensorBoard discards this step and later ones";
}

TEST(EventFile, HistogramsRoundTrip) {
  const TempFolder folder;
  EventFile file(folder.path());
  const std::vector<float> values{-1, 0, 0.5, 0.5, 2};
  file.add_histogram("weights/fc1.weight", histogram_of(values), 12);
  file.add_histogram("weights/none", histogram_of({}), 12);
  const std::vector<Event> events = read_events(read_file(file.path()));
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[1].tag, "weights/fc1.weight");
  EXPECT_EQ(events[1].step, 12);
  ASSERT_TRUE(events[1].histogram.has_value());
  EXPECT_EQ(events[1].histogram->num, 5);
  EXPECT_EQ(events[1].histogram->min, -1);
  EXPECT_EQ(events[1].histogram->max, 2);
  EXPECT_EQ(events[1].histogram->sum, 2);
  EXPECT_EQ(events[1].histogram->sum_squares, 5.5);
  double counted = 0;
  for (const double count : events[1].histogram->buckets) counted += count;
  EXPECT_EQ(counted, 5);
}

TEST(EventFile, HyperparametersRoundTrip) {
  const TempFolder folder;
  EventFile file(folder.path());
  file.add_hyperparameters({{"lr", "0.1"}, {"strategy", "ps:bsp"}, {"optimizer", "sgd"}});
  const std::vector<Event> events = read_events(read_file(file.path()));
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[1].tag, "_hparams_/session_start_info");
  EXPECT_EQ(events[1].hyperparameters,
            (std::map<std::string, std::string>{{"lr", "=0.1"}, {"strategy", "ps:bsp"}, {"optimizer", "sgd"}}));
}

TEST(EventFile, BytesFollowTheProtobufSpecification) {
  const TempFolder folder;
  EventFile file(folder.path(), "", 1.5);
  file.add_scalar("loss", 0.25, 300, 2.0);
  const std::vector<std::string> records = payloads(read_file(file.path()));
  ASSERT_EQ(records.size(), 2u);
  // Keys are field * 8 + wire type: 0x09 = double 1, 0x10 = varint 2, 0x1a = bytes 3, 0x2a = bytes 5, 0x15 = float 2.
  EXPECT_EQ(records[0],
            "\x09\x00\x00\x00\x00\x00\x00\xf8\x3f"  // wall_time 1.5
            "\x1a\x0d"
            "brain.Event:2"s);
  EXPECT_EQ(records[1],
            "\x09\x00\x00\x00\x00\x00\x00\x00\x40"  // wall_time 2.0
            "\x10\xac\x02"                          // step 300 = 0b10'0101100
            "\x2a\x0d"                              // summary of 13 bytes
            "\x0a\x0b"                              // value of 11 bytes
            "\x0a\x04"
            "loss"
            "\x15\x00\x00\x80\x3e"s);  // 0.25f
}

TEST(EventFile, FramesMatchAKnownRecord) {
  const TempFolder folder;
  const EventFile file(folder.path(), "", 0.0);
  EXPECT_EQ(read_file(file.path()),
            "\x18\0\0\0\0\0\0\0"s  // length 24
            "\xa3\x7f\x4b\x22"s    // its masked CRC-32C, as another program computed it
            "\x09\0\0\0\0\0\0\0\0\x1a\x0d"s
            "brain.Event:2"s
            "\xee\xdf\x28\xa3"s);  // the data's
}

TEST(EventFile, ScalarsRoundTrip) {
  const TempFolder folder;
  EventFile file(folder.path());
  file.add_scalar("train/loss", 0.5, 0, 10.0);
  file.add_scalar("train/loss", -1e300, 1ull << 40, 11.0);
  file.add_scalar("größe", NAN, 2, 12.0);
  file.add_scalar("", 0.0, 3, 13.0);
  const std::vector<Event> events = read_events(read_file(file.path()));
  ASSERT_EQ(events.size(), 5u);
  EXPECT_EQ(events[1].tag, "train/loss");
  EXPECT_EQ(events[1].value, 0.5f);
  EXPECT_EQ(events[1].step, 0);
  EXPECT_EQ(events[1].wall_time, 10.0);
  EXPECT_EQ(events[2].value, -INFINITY);
  EXPECT_EQ(events[2].step, std::int64_t{1} << 40);
  EXPECT_EQ(events[3].tag, "größe");
  EXPECT_TRUE(std::isnan(events[3].value));
  EXPECT_EQ(events[4].tag, "");
  EXPECT_TRUE(file.healthy());
}

TEST(EventFile, EveryChangedBitIsNoticed) {
  const TempFolder folder;
  EventFile file(folder.path(), "", 1.5);
  file.add_scalar("loss", 0.25, 300, 2.0);
  const std::string sound = read_file(file.path());
  for (std::size_t bit = 0; bit < sound.size() * 8; ++bit) {
    std::string broken = sound;
    broken[bit / 8] = static_cast<char>(broken[bit / 8] ^ (1 << bit % 8));
    EXPECT_THROW(read_events(broken), Corrupt) << "bit " << bit;
  }
}

TEST(EventFile, NameIsWhatTensorBoardLooksFor) {
  const TempFolder folder;
  const EventFile plain(folder / "made/for/it", "", 1234567890.7);
  EXPECT_THAT(plain.path().filename().string(), StartsWith("events.out.tfevents.1234567890."));
  EXPECT_THAT(plain.path().filename().string(), EndsWith("." + std::to_string(::getpid())));
  const EventFile second(folder / "made/for/it", "", 1234567890.9);
  EXPECT_NE(second.path(), plain.path()) << "an existing file is never touched";
  EXPECT_EQ(read_events(read_file(second.path())).size(), 1u);
  const EventFile named(folder.path(), "test");
  EXPECT_THAT(named.path().filename().string(), EndsWith(".test"));
}

TEST(EventFile, AFolderThatCannotBeMadeIsAnError) {
  const TempFolder folder;
  write_file_atomically(folder / "file", as_bytes("text"));
  EXPECT_THROW(EventFile(folder / "file/below"), IoError);
}

TEST(EventFile, EventsOfManyThreadsDoNotMix) {
  const TempFolder folder;
  EventFile file(folder.path());
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        for (Step step = 0; step < 100; ++step) file.add_scalar("train/loss", 1.0, step);
      });
    }
  }
  EXPECT_EQ(read_events(read_file(file.path())).size(), 401u);
}

}  // namespace
}  // namespace trireme::observe
