// Who gets into etcd, and which etcd is trusted: TLS, certificates, users.
#include "base/error.h"
#include "store/etcd_store.h"
#include "tests/support/etcd_cluster.h"
#include "tests/support/expect_fails.h"

namespace trireme::store {
namespace {

constexpr auto kWithin = 10s;

std::unique_ptr<Store> open(const std::string& location) {
  return open_store({.location = location, .call_within = kWithin});
}

void expect_works(Store& store) {
  const auto leader = store.campaign({.candidate = {.name = "me", .value = "here"}, .ttl = 2s});
  ASSERT_TRUE(leader);
  leader->commit({{"key", "value"}});
  EXPECT_EQ(store.get("key"), "value");
  leader->resign();
}

/// Switches on users: root, with this password.
void require_users(const EtcdCluster& etcd, const std::string& password) {
  net::HttpClient http(etcd.addresses()[0], etcd.access().tls);
  const auto post = [&](const std::string& path, const nlohmann::json& body) {
    const auto answer = http.post({.path = path, .body = body.dump(), .deadline = Deadline::in(kWithin)});
    ASSERT_EQ(answer.status, 200u) << path << answer.body;
  };
  post("/v3/auth/user/add", {{"name", "root"}, {"password", password}});
  post("/v3/auth/role/add", {{"name", "root"}});
  post("/v3/auth/user/grant", {{"user", "root"}, {"role", "root"}});
  post("/v3/auth/enable", nlohmann::json::object());
}

TEST(EtcdAccess, OverTlsWithAClientCertificate) {
  const EtcdCluster etcd({.tls = true});
  const std::string certificate = etcd.certificate().string();
  const std::string full =
      fmt::format("{}?ca={}&cert={}&key={}", etcd.location("job"), certificate, certificate, etcd.key().string());
  expect_works(*open(full));

  EXPECT_FAILS(open(etcd.location("job"))->get("key"), Unauthenticated, "https://127.0.0.1", "certificate");
  EXPECT_FAILS(open(etcd.location("job") + "?ca=" + certificate)->get("key"), Unauthenticated, "https://127.0.0.1",
               "certificate");
  EXPECT_FAILS(open(etcd.location("job") + "?ca=/nowhere/ca.pem"), InvalidArgument, "/nowhere/ca.pem");
  std::string plain = "etcd://" + etcd.addresses()[0].text();
  EXPECT_THROW(open_store({.location = plain, .call_within = 300ms})->get("key"), Error) << "without TLS";
}

TEST(EtcdAccess, AsAUserWithAPassword) {
  EtcdCluster etcd;
  const TempFolder folder;
  folder.write("auth", "root:opensesame\n");
  folder.write("wrong", "root:guess\n");
  folder.write("nonsense", "opensesame\n");
  require_users(etcd, "opensesame");
  const auto store = open(etcd.location("job") + "?auth=" + (folder / "auth").string());
  expect_works(*store);

  EXPECT_FAILS(open(etcd.location("job"))->get("key"), Unauthenticated, "?auth=FILE");
  EXPECT_FAILS(open(etcd.location("job") + "?auth=" + (folder / "wrong").string())->get("key"), InvalidArgument,
               "invalid user ID or password");
  EXPECT_FAILS(open(etcd.location("job") + "?auth=" + (folder / "nonsense").string()), InvalidArgument,
               "user:password");

  etcd.kill(0);  // it forgets the tokens that it has given out
  etcd.restart(0);
  EXPECT_EQ(store->get("key"), "value");
}

}  // namespace
}  // namespace trireme::store
