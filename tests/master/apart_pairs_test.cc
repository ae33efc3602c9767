#include "master/apart_pairs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme::master {
namespace {

using cluster::Role;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

const Seat kWorker{.role = Role::kWorker, .slot = 7};
const Seat kServer{.role = Role::kServer, .slot = 3};
const ApartPairs::Time kStart{24h};

TEST(ApartPairs, StayApartUntilOneReachesTheOther) {
  ApartPairs pairs;
  EXPECT_TRUE(pairs.add(kServer, kWorker, kStart));
  EXPECT_FALSE(pairs.add(kWorker, kServer, kStart + 1s)) << "the other one's word";
  EXPECT_THAT(pairs.all(), ElementsAre(ApartPairs::Pair(kWorker, kServer)));
  EXPECT_THAT(pairs.to_try(kWorker, kStart + 24h), ElementsAre(kServer));
  EXPECT_THAT(pairs.to_try(kServer, kStart + 24h), ElementsAre(kWorker));
  EXPECT_THAT(pairs.to_try(Seat{.slot = 1}, kStart + 24h), IsEmpty());
  EXPECT_THAT(pairs.all(), ::testing::SizeIs(1)) << "time alone repairs nothing";
  EXPECT_TRUE(pairs.reached(kServer, kWorker, kStart + 24h));
  EXPECT_FALSE(pairs.reached(kServer, kWorker, kStart + 24h));
  EXPECT_THAT(pairs.all(), IsEmpty());
  EXPECT_THAT(pairs.to_try(kWorker, kStart + 24h), IsEmpty());
}

TEST(ApartPairs, ThatFailAgainAndAgainMeetLessAndLessOften) {
  ApartPairs pairs;
  ApartPairs::Time now = kStart;
  for (const auto least : {2s, 4s, 8s, 16s}) {
    pairs.add(kWorker, kServer, now);
    EXPECT_THAT(pairs.to_try(kWorker, now + least - 1ms), IsEmpty());
    EXPECT_FALSE(pairs.reached(kWorker, kServer, now + least - 1ms)) << least.count();
    EXPECT_TRUE(pairs.reached(kWorker, kServer, now += least)) << least.count();
  }
  for (int i = 0; i < 20; ++i) {
    pairs.add(kWorker, kServer, now);
    EXPECT_TRUE(pairs.reached(kWorker, kServer, now += 10min));
  }
  now += 11min;  // all was well for longer than they are ever kept apart
  pairs.add(kWorker, kServer, now);
  EXPECT_TRUE(pairs.reached(kWorker, kServer, now + 2s));
}

}  // namespace
}  // namespace trireme::master
