#include "cluster/master_finder.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "store/store.h"
#include "tests/support/expect_fails.h"
#include "tests/support/temp_folder.h"

namespace trireme::cluster {
namespace {

TEST(MasterFinder, WithoutAStoreThereIsNone) { EXPECT_FALSE(make_master_finder("")); }

TEST(MasterFinder, FindsTheAddressOfTheLeaderAndReportsOneThatIsNone) {
  if (!store::sqlite_store_available()) GTEST_SKIP() << "built without SQLite";
  const TempFolder folder;
  const std::string location = "sqlite:" + (folder / "job.db").string();
  const auto find = make_master_finder(location);
  EXPECT_EQ(find(), std::nullopt) << "nobody leads";
  const auto leader = store::open_store({.location = location})->campaign({});
  EXPECT_EQ(find(), std::nullopt) << "it has not said where it is";
  const net::Address address{.host = "10.0.0.7", .port = 99};
  for (const std::string invalid : {"", "{", "null", "[1, 2]", "{\"host\": 7}", "\xff\xfe"}) {
    leader->commit({{kAddressKey, invalid}});
    EXPECT_FAILS(find(), Corrupt, "job.db", "address");
  }
  leader->commit({{kAddressKey, nlohmann::json(address).dump()}});
  EXPECT_EQ(find()->text(), address.text());
}

TEST(WithoutMaster, IsTenMinutesUnlessTheEnvironmentSaysOtherwise) {
  const auto within = [](const char* value) {
    return without_master_within([&](const char* name) -> const char* {
      EXPECT_STREQ(name, "TRIREME_WITHOUT_MASTER");
      return value;
    });
  };
  EXPECT_EQ(within(nullptr), 600s);
  EXPECT_EQ(within(""), 600s);
  EXPECT_EQ(within("30"), 30s);
  for (const char* wrong : {"0", "-1", "ten", "5s", "99999999999"}) {
    EXPECT_FAILS(within(wrong), InvalidArgument, "TRIREME_WITHOUT_MASTER='" + std::string(wrong), "600");
  }
}

}  // namespace
}  // namespace trireme::cluster
