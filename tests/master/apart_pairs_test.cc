#include "master/apart_pairs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme::master {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(ApartPairs, MayTryAgainAfterLongerAndLongerTimes) {
  ApartPairs pairs;
  const ApartPairs::Time start{24h};
  pairs.add(7, 3, start);
  pairs.add(3, 7, start + 1s);  // the other one's word
  EXPECT_THAT(pairs.at(start + 299s), ElementsAre(ApartPair(3, 7)));
  EXPECT_THAT(pairs.at(start + 300s), IsEmpty());
  pairs.add(3, 7, start + 310s);
  EXPECT_THAT(pairs.at(start + 310s + 599s), ElementsAre(ApartPair(3, 7)));
  EXPECT_THAT(pairs.at(start + 310s + 600s), IsEmpty());
}

}  // namespace
}  // namespace trireme::master
