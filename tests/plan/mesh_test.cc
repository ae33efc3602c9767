#include "plan/mesh.h"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "plan/placement.h"
#include "tests/support/expect_fails.h"

namespace trireme::plan {
namespace {

constexpr Placement::Order kUsual = {Dimension::kTensor, Dimension::kData, Dimension::kPipe};

TEST(Mesh, IsReadAndWritten) {
  EXPECT_EQ(parse_mesh("data=2,pipe=4,tensor=8"), (Mesh{2, 4, 8}));
  EXPECT_EQ(parse_mesh("tensor=2,data=3"), (Mesh{3, 1, 2}));
  EXPECT_EQ(to_text(Mesh{3, 1, 2}), "data=3,pipe=1,tensor=2");
  EXPECT_EQ(parse_mesh(to_text(Mesh{7, 5, 3})), (Mesh{7, 5, 3}));
}

TEST(Mesh, ThatIsWrongIsRefusedWithAnExample) {
  EXPECT_FAILS(parse_mesh(""), InvalidArgument, "has no size", "data=2,pipe=4,tensor=1");
  EXPECT_FAILS(parse_mesh("data"), InvalidArgument, "'data' has no size");
  EXPECT_FAILS(parse_mesh("data=2,"), InvalidArgument, "has no size");
  EXPECT_FAILS(parse_mesh("date=2"), InvalidArgument, "no dimension 'date'", "did you mean 'data'?");
  EXPECT_FAILS(parse_mesh("data=2,data=2"), InvalidArgument, "data is there twice");
  for (const char* size : {"0", "-1", "1.5", "", " 2", "2x", "99999999999999999999", "1048577"}) {
    EXPECT_FAILS(parse_mesh(std::string("pipe=") + size), InvalidArgument, "pipe=", "from 1 to 1048576");
  }
  EXPECT_FAILS(parse_mesh("data=1048576,pipe=1048576,tensor=1048576"), InvalidArgument, "ranks: at most");
}

TEST(Placement, RanksAndCoordinatesAreInverse) {
  const Placement placement({2, 3, 4}, kUsual, 5);
  std::set<Rank> seen;
  for (std::uint32_t data = 0; data < 2; ++data) {
    for (std::uint32_t pipe = 0; pipe < 3; ++pipe) {
      for (std::uint32_t tensor = 0; tensor < 4; ++tensor) {
        const Rank rank = placement.rank_of({data, pipe, tensor});
        EXPECT_EQ(placement.coordinates(rank), (Coordinates{data, pipe, tensor}));
        EXPECT_TRUE(seen.insert(rank).second);
      }
    }
  }
  EXPECT_EQ(*seen.rbegin(), 23u);
}

TEST(Placement, EachRankIsInOneGroupOfEachDimension) {
  const Placement placement({2, 3, 4}, kUsual, 1);
  for (const Dimension dimension : kDimensions) {
    std::set<Rank> seen;
    for (const auto& group : placement.groups(dimension)) {
      EXPECT_EQ(group.size(), placement.mesh().size(dimension));
      for (const Rank rank : group) {
        EXPECT_TRUE(seen.insert(rank).second);
        EXPECT_EQ(placement.group(dimension, rank), group);
      }
    }
    EXPECT_EQ(seen.size(), 24u);
  }
  EXPECT_EQ(placement.group(Dimension::kTensor, 5), (std::vector<Rank>{4, 5, 6, 7}));
}

TEST(Placement, HostsHoldRunsOfRanksWhoseLengthsDifferByAtMostOne) {
  const Placement placement({10, 1, 1}, kUsual, 3);
  std::vector<std::uint32_t> hosts;
  for (Rank rank = 0; rank < 10; ++rank) hosts.push_back(placement.host_of(rank));
  EXPECT_EQ(hosts, (std::vector<std::uint32_t>{0, 0, 0, 0, 1, 1, 1, 2, 2, 2}));
  EXPECT_FAILS(Placement({2, 1, 1}, kUsual, 3), InvalidArgument, "2 ranks", "3 hosts");
  EXPECT_FAILS(Placement({2, 1, 1}, kUsual, 0), InvalidArgument, "0 hosts");
}

TEST(PlaceRanks, NumbersAsTrainingDoes) {
  const PlacedMesh placed = place_ranks({4, 4, 4}, 8);
  EXPECT_TRUE(placed.span(Dimension::kTensor).within_host());
  EXPECT_EQ(placed.span(Dimension::kPipe).hosts, 2u);
  EXPECT_EQ(placed.span(Dimension::kData).hosts, 4u);
  EXPECT_THAT(placed.reason, ::testing::HasSubstr("along tensor, then pipe, then data"));
  EXPECT_THAT(placed.reason, ::testing::HasSubstr("tensor (4 ranks) stays within a host"));
  EXPECT_THAT(placed.reason, ::testing::HasSubstr("data (4 ranks) spans 4 hosts"));
  EXPECT_THAT(place_ranks({1, 1, 1}, 1).reason, ::testing::HasSubstr("one rank"));
}

TEST(PlaceRanks, KnowsHowManyOfAGroupAreOnAHost) {  // of 16 data ranks with 4 stages, 2 are on each host of 8
  EXPECT_EQ(place_ranks({16, 4, 1}, 8).span(Dimension::kData).most_local, 2u);
  EXPECT_EQ(place_ranks({16, 1, 1}, 2).span(Dimension::kData).most_local, 8u);
}

TEST(Placement, PictureNamesEveryRankAndItsHost) {
  const std::string text = picture(Placement({2, 2, 2}, kUsual, 2));
  for (const char* part : {"data=2,pipe=2,tensor=2: 8 ranks on 2 hosts", "pipe 1", "data 1", "0-1 @0", "6-7 @1"}) {
    EXPECT_THAT(text, ::testing::HasSubstr(part));
  }
  EXPECT_LE(std::ranges::count(picture(Placement({1000, 100, 1}, kUsual, 50)), '\n'), 12);
}

}  // namespace
}  // namespace trireme::plan
