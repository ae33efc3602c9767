// Where a process listens, and what others are told of it.
#include "cluster/own_host.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/support/expect_fails.h"
#include "tests/support/own_network.h"

namespace trireme::cluster {
namespace {

const net::Route kHere{.from = "127.0.0.1", .to = "127.0.0.1"};
const net::Route kElsewhere{.from = "10.0.0.7", .to = "10.0.0.1"};
const net::Route kHereByAnotherName{.from = "10.0.0.7", .to = "10.0.0.7"};

OwnHost same(const std::string& host) { return {.listen = host, .advertise = host}; }

TEST(OwnHost, IsWhereTheRouteToTheMasterBeginsUnlessGiven) {
  EXPECT_EQ(choose_own_host("", kHere), same("127.0.0.1"));
  EXPECT_EQ(choose_own_host("", kElsewhere), same("10.0.0.7"));
  EXPECT_EQ(choose_own_host("", kHereByAnotherName), same("10.0.0.7"));
}

TEST(OwnHost, IsWhatWasGiven) {
  EXPECT_EQ(choose_own_host("node7", kElsewhere), same("node7"));
  EXPECT_EQ(choose_own_host("127.0.0.1", kHere), same("127.0.0.1"));
  EXPECT_EQ(choose_own_host("127.0.0.1", kHereByAnotherName), same("127.0.0.1"));
}

TEST(OwnHost, AllInterfacesAreNoAddressToTellOthers) {
  EXPECT_EQ(choose_own_host("0.0.0.0", kElsewhere), (OwnHost{.listen = "0.0.0.0", .advertise = "10.0.0.7"}));
  EXPECT_EQ(choose_own_host("::", kElsewhere), (OwnHost{.listen = "::", .advertise = "10.0.0.7"}));
}

TEST(OwnHost, LoopbackIsRefusedIfTheMasterIsElsewhere) {
  for (const char* loopback : {"127.0.0.1", "localhost", "::1"}) {
    EXPECT_FAILS(choose_own_host(loopback, kElsewhere), InvalidArgument, loopback, "10.0.0.1", "10.0.0.7",
                 "TRIREME_LISTEN");
  }
}

TEST(OwnHost, AProcessAloneListensOnLoopback) { EXPECT_EQ(find_own_host({}, {}, Deadline::in(0s)), same("127.0.0.1")); }

TEST(OwnHost, WaitsUntilTheStoreNamesAMaster) {
  int asked = 0;
  const auto find_master = [&]() -> std::optional<net::Address> {
    if (++asked < 3) return std::nullopt;
    return net::Address{.host = "127.0.0.1", .port = 1};
  };
  EXPECT_EQ(find_own_host({}, find_master, Deadline::in(60s)), same("127.0.0.1"));
  EXPECT_EQ(asked, 3);
}

TEST(OwnHost, WithoutARouteItSaysWhy) {
  const JobEnvironment place{.master = {.host = "no-such-host.invalid", .port = 1}};
  EXPECT_FAILS(find_own_host(place, {}, Deadline::in(0s)), Timeout, "no-such-host.invalid");
}

int find_in_own_network() {
  if (!enter_own_network()) return 77;
  bring_up("lo", "127.0.0.1");
  bring_up("lo:1", "10.99.0.7");
  const JobEnvironment place{.master = {.host = "10.99.0.7", .port = 1}};
  return find_own_host(place, {}, Deadline::in(0s)) == same("10.99.0.7") ? 0 : 1;
}

TEST(OwnHost, IsTheOneOnTheNetworkOfTheMaster) {
  EXPECT_EXIT(
      ::_exit(find_in_own_network()), [](int status) { return status == 0 || WEXITSTATUS(status) == 77; }, "");
}

}  // namespace
}  // namespace trireme::cluster
