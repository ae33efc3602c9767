#include "cli/remote/host_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/support/expect_fails.h"

namespace trireme::cli {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

TEST(HostList, IsParsedFromAFlag) {
  EXPECT_THAT(parse_hosts("--hosts", "a:4,ada@b:2,c"),
              ElementsAre(HostSlots{"a", 4}, HostSlots{"ada@b", 2}, HostSlots{"c", 1}));
  EXPECT_THAT(parse_hosts("--hosts", "[fd00::1]:3"), ElementsAre(HostSlots{"fd00::1", 3}));
  EXPECT_THAT(parse_hosts("--hosts", "ada@[::1]"), ElementsAre(HostSlots{"ada@::1", 1}));  // as ssh takes it
  for (const char* bad : {"", "a:", "a:0", "a:x", "a,a", ",", "-oProxyCommand=x", "a b", "a;b"}) {
    EXPECT_FAILS(parse_hosts("--hosts", bad), InvalidArgument, "--hosts");
  }
}

TEST(HostList, IsParsedFromAFile) {
  EXPECT_THAT(parse_host_lines("f", "# ours\na:4\n\nb slots=2  # two\nc\n"),
              ElementsAre(HostSlots{"a", 4}, HostSlots{"b", 2}, HostSlots{"c", 1}));
  EXPECT_THAT(parse_host_lines("f", "\n# nobody\n"), IsEmpty());
  EXPECT_FAILS(parse_host_lines("f", "a cores=4"), InvalidArgument, "f:", "slots=4");
}

TEST(HostList, WorkersFillTheHostsInOrder) {
  EXPECT_THAT(place_workers({}, {{"a", 2}, {"b", 2}}, 3), ElementsAre(Pair(0, "a"), Pair(1, "a"), Pair(2, "b")));
}

TEST(HostList, WorkersStayWhereTheyAreWhenAnotherHostGoes) {
  const SlotHosts before{{0, "a"}, {1, "a"}, {2, "b"}, {3, "b"}};
  EXPECT_THAT(place_workers(before, {{"b", 2}}, 4), ElementsAre(Pair(2, "b"), Pair(3, "b")));
}

TEST(HostList, ANewHostTakesFreePlacesFirst) {
  const SlotHosts before{{2, "b"}, {3, "b"}};
  EXPECT_THAT(place_workers(before, {{"b", 2}, {"c", 3}}, 5),
              ElementsAre(Pair(0, "c"), Pair(1, "c"), Pair(2, "b"), Pair(3, "b"), Pair(4, "c")));
}

TEST(HostList, AHostThatTakesFewerLosesItsLastWorkers) {
  const SlotHosts before{{0, "a"}, {1, "a"}, {2, "a"}};
  EXPECT_THAT(place_workers(before, {{"a", 1}}, 3), ElementsAre(Pair(0, "a")));
}

TEST(HostList, WorkerZeroIsOnAHostThatSeesTheFolder) {
  const std::vector<HostSlots> hosts{{"a", 2}, {"b", 1}};
  EXPECT_THAT(place_workers({}, hosts, 2, {"a"}), ElementsAre(Pair(0, "b"), Pair(1, "a")));
  EXPECT_THAT(place_workers({{0, "c"}, {1, "b"}}, hosts, 2, {"a"}), ElementsAre(Pair(1, "b")));  // it waits
  EXPECT_THAT(place_workers({{0, "b"}}, hosts, 1, {"a"}), ElementsAre(Pair(0, "b")));
}

TEST(HostList, ServersAreSpreadAndStay) {
  EXPECT_THAT(place_servers({}, {{"a", 1}, {"b", 1}}, 3), ElementsAre(Pair(0, "a"), Pair(1, "b"), Pair(2, "a")));
  EXPECT_THAT(place_servers({{0, "b"}}, {{"a", 1}, {"b", 1}}, 1), ElementsAre(Pair(0, "b")));
  EXPECT_THAT(place_servers({{0, "b"}}, {{"a", 1}}, 1), ElementsAre(Pair(0, "a")));
}

}  // namespace
}  // namespace trireme::cli
