#include "base/error.h"

#include <cerrno>

#include <gmock/gmock.h>

namespace trireme {
namespace {

using ::testing::StrEq;
using ::testing::ThrowsMessage;

template <typename E>
class ErrorFamily : public ::testing::Test {};
using Family = ::testing::Types<PeerLost, Timeout, StaleView, InvalidArgument, Corrupt, Unauthenticated, IoError>;
TYPED_TEST_SUITE(ErrorFamily, Family);

TYPED_TEST(ErrorFamily, FailThrowsEachTypeWithItsMessage) {
  EXPECT_THAT([] { fail<TypeParam>("server {} is silent since {} s", 2, 31); },
              ThrowsMessage<TypeParam>(StrEq("server 2 is silent since 31 s")));
  EXPECT_THROW(fail<TypeParam>("as the root"), Error);
}

TEST(Error, FailErrnoSaysWhatTheSystemSaid) {
  const auto act = [] {
    errno = ENOENT;
    fail_errno("cannot open data.bin");
  };
  EXPECT_THAT(act, ThrowsMessage<IoError>(StrEq("cannot open data.bin: No such file or directory")));
}

TEST(CheckDeathTest, AbortsWithPlaceConditionAndMessage) {
  const int rank = 3;
  EXPECT_DEATH(TRIREME_CHECK(rank < 2, "rank {}", rank), "error_test.cc:[0-9]+: bug: check failed: rank < 2: rank 3");
  EXPECT_DEATH(TRIREME_CHECK(rank < 2), "check failed: rank < 2");
}

TEST(Check, PassesSilently) {
  TRIREME_CHECK(true, "never {}", "formatted");
  TRIREME_CHECK(true);
}

}  // namespace
}  // namespace trireme
