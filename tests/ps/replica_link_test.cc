// A primary's link to its replica, which is the test: it decides when to acknowledge, and what it claims to have.
#include "ps/replica_link.h"

#include <future>
#include <set>

#include "base/error.h"
#include "net/service.h"
#include "ps/shard.h"
#include "tests/support/eventually.h"
#include "tests/support/expect_fails.h"
#include "tests/support/secret.h"

namespace trireme::ps {
namespace {

using ::testing::HasSubstr;

/// What a worker hears about its chunk: "done", or why not.
class Waiter final : public ChunkWaiter {
 public:
  void chunk_done(const StepOutcome& /*outcome*/) override { told_.set_value("done"); }
  void chunk_refused(const std::exception& reason) override { told_.set_value(reason.what()); }

  bool told() { return heard_.wait_for(0s) == std::future_status::ready; }
  std::string wait() { return heard_.wait_for(kPatience) == std::future_status::ready ? heard_.get() : "silence"; }

 private:
  std::promise<std::string> told_;
  std::shared_future<std::string> heard_ = told_.get_future().share();
};

/// The replica. Answers at once, but keeps those requests waiting that it is told to hold.
class ReplicaServer final : public net::RequestHandler {
 public:
  void on_request(const net::SessionPtr& session, net::InFrame frame) override {
    const std::lock_guard lock(mutex_);
    seen_.push_back(frame.header.kind);
    changed_.notify_all();
    if (held_.contains(frame.header.kind)) {
      waiting_.emplace_back(session, frame.header);
    } else {
      answer(session, frame.header);
    }
  }
  void on_disconnect(const net::SessionPtr& /*session*/, const std::string& /*reason*/) override {}

  void hold(Request kind) {
    const std::lock_guard lock(mutex_);
    held_.insert(kind);
  }

  void let_go() {
    const std::lock_guard lock(mutex_);
    held_.clear();
    for (const auto& [session, header] : std::exchange(waiting_, {})) answer(session, header);
  }

  /// Whether a request of `kind` has come, or comes yet.
  bool has_seen(Request kind) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, [&] { return std::ranges::count(seen_, kind) > 0; });
  }

  /// How many of them have come.
  std::ptrdiff_t count(Request kind) {
    const std::lock_guard lock(mutex_);
    return std::ranges::count(seen_, kind);
  }

  SyncReply has;  ///< set before the link starts

 private:
  void answer(const net::SessionPtr& session, const net::FrameHeader& header) const {
    if (header.kind == kOpen) return session->reply(header, OpenReply{});
    if (header.kind == kSync) return session->reply(header, has);
    session->reply(header, Done{});
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::uint16_t> seen_;
  std::set<std::uint16_t> held_;
  std::vector<std::pair<net::SessionPtr, net::FrameHeader>> waiting_;
};

/// One shard of one chunk, in view 1, with worker 1 and the replica, member 9.
struct ReplicaLinkTest : ::testing::Test {
  ReplicaLinkTest() {
    replica.has = {.chunks = {0}, .histories = {4711}};  // something else than the primary
    service = std::make_unique<net::Service>(net::ServiceOptions{.listener = {.name = "replica", .secret = kSecret}},
                                             replica);
  }
  ~ReplicaLinkTest() override {
    replica.let_go();
    if (!link) return;
    link->close("the test ends");
    link->join();
  }

  void make_link(bool in_sync) {
    ReplicaLinkOptions options{.replica = {.id = 9, .slot = 1, .address = service->address()},
                               .open = {.view = {.view = 1}},
                               .from = 8,
                               .secret = kSecret,
                               .timeout = kPatience,
                               .on_point = on_point};
    link = std::make_shared<ReplicaLink>(
        loop, options, std::vector<ReplicatedShard>{{.shard = shard, .number = 0, .in_sync = in_sync}});
    chunk().enter(1, /*workers=*/1, {link});
  }

  Chunk& chunk() { return shard->chunk(0); }

  std::shared_ptr<Waiter> assign(float value) {
    auto waiter = std::make_shared<Waiter>();
    chunk().assign(std::vector<float>(chunk().parameters().size(), value), 1, waiter);
    link->flush();
    return waiter;
  }

  std::shared_ptr<Waiter> push(Step step) {
    auto waiter = std::make_shared<Waiter>();
    chunk().push({.view = 1,
                  .worker = 0,
                  .info = {.step = step, .lanes = {0, 1}, .samples = 1, .lr = 1},
                  .gradient = gradient.data(),
                  .waiter = waiter});
    link->flush();
    return waiter;
  }

  void wait_until_in_sync() const {
    for (const auto until = Deadline::in(kPatience); !in_sync() && !until.passed();) std::this_thread::yield();
    EXPECT_TRUE(in_sync());
  }

  bool in_sync() const { return link->reports().at(0).in_sync; }
  std::string failure() const { return link->reports().at(0).failure; }

  ReplicaServer replica;
  CrashHook on_point;
  std::unique_ptr<net::Service> service;
  net::EventLoop loop{"primary"};
  Layout layout{{{"weight", 32}}, 1};
  ChunkPolicy policy{.pool = std::make_shared<net::BufferPool>()};
  std::vector<float> gradient = std::vector<float>(32, 0.5f);
  std::shared_ptr<Shard> shard = std::make_shared<Shard>(layout, 0, policy);
  std::shared_ptr<ReplicaLink> link;
};

TEST_F(ReplicaLinkTest, UpdateIsNotAcknowledgedBeforeTheReplicaHasIt) {
  make_link(/*in_sync=*/true);
  link->start();
  ASSERT_EQ(assign(1)->wait(), "done");
  replica.hold(kReplicate);
  const auto pushed = push(0);
  ASSERT_TRUE(replica.has_seen(kReplicate));
  EXPECT_FALSE(pushed->told());
  replica.let_go();
  EXPECT_EQ(pushed->wait(), "done");
}

TEST_F(ReplicaLinkTest, AnswersWaitForTheInitialSync) {
  replica.hold(kSync);
  make_link(/*in_sync=*/true);
  const auto assigned = assign(1);
  link->start();
  ASSERT_TRUE(replica.has_seen(kSync));
  EXPECT_FALSE(assigned->told());
  EXPECT_FALSE(in_sync());
  replica.let_go();
  EXPECT_EQ(assigned->wait(), "done");
}

TEST_F(ReplicaLinkTest, DifferingChunkIsSentAsAWhole) {
  make_link(/*in_sync=*/true);
  link->start();
  EXPECT_TRUE(replica.has_seen(kInstall));
}

TEST_F(ReplicaLinkTest, ChunkThatIsTheSameIsNotSent) {
  replica.has.histories = {chunk().history()};
  make_link(/*in_sync=*/true);
  link->start();
  wait_until_in_sync();
  ASSERT_EQ(assign(1)->wait(), "done");
  EXPECT_EQ(replica.count(kInstall), 1);  // that of the assignment
}

TEST_F(ReplicaLinkTest, CopyIsReportedInSyncOnlyWhenAllOfItIsAcknowledged) {
  replica.hold(kInstall);
  make_link(/*in_sync=*/false);
  link->start();
  ASSERT_TRUE(replica.has_seen(kInstall));
  EXPECT_FALSE(in_sync());
  replica.let_go();
  wait_until_in_sync();
  EXPECT_EQ(failure(), "");
}

TEST_F(ReplicaLinkTest, LostReplicaFailsPendingAndLaterUpdates) {
  make_link(/*in_sync=*/true);
  link->start();
  ASSERT_EQ(assign(1)->wait(), "done");
  replica.hold(kReplicate);
  const auto pushed = push(0);
  ASSERT_TRUE(replica.has_seen(kReplicate));
  service.reset();
  EXPECT_THAT(pushed->wait(), HasSubstr("the replica, server 1"));
  EXPECT_THAT(push(1)->wait(), HasSubstr("the replica, server 1"));
  EXPECT_THAT(failure(), HasSubstr("is lost"));
}

TEST_F(ReplicaLinkTest, LostReplicaThatWasNotInSyncDelaysNothing) {
  make_link(/*in_sync=*/false);
  service.reset();
  link->start();
  for (const auto until = Deadline::in(kPatience); failure().empty() && !until.passed();) std::this_thread::yield();
  EXPECT_THAT(failure(), HasSubstr("is lost"));
  EXPECT_EQ(assign(1)->wait(), "done");
  EXPECT_EQ(push(0)->wait(), "done");
}

TEST_F(ReplicaLinkTest, ReplicaWithoutAChunkIsGivenUp) {
  replica.has = {.chunks = {5}, .histories = {1}};
  make_link(/*in_sync=*/true);
  link->start();
  EXPECT_THAT(assign(1)->wait(), HasSubstr("knows nothing of chunk 0"));
}

TEST_F(ReplicaLinkTest, ReplicaWithInvalidAnswersIsGivenUp) {
  replica.has = {.chunks = {0, 1}, .histories = {1}};
  make_link(/*in_sync=*/true);
  link->start();
  EXPECT_THAT(assign(1)->wait(), HasSubstr("nonsense"));
}

TEST_F(ReplicaLinkTest, CloseFailsPendingUpdatesAndEndsTheThread) {
  make_link(/*in_sync=*/true);
  link->start();
  ASSERT_EQ(assign(1)->wait(), "done");
  replica.hold(kReplicate);
  const auto pushed = push(0);
  ASSERT_TRUE(replica.has_seen(kReplicate));
  link->close("view 1 has ended");
  EXPECT_EQ(pushed->wait(), "view 1 has ended");
  link->join();
  EXPECT_TRUE(link->ended());
}

TEST_F(ReplicaLinkTest, CrashPointsOfAnUpdateAreReachedInOrder) {
  std::mutex mutex;
  std::vector<CrashPoint> points;  // guarded by mutex
  on_point = [&](CrashPoint point) {
    const std::lock_guard lock(mutex);
    points.push_back(point);
  };
  make_link(/*in_sync=*/true);
  link->start();
  ASSERT_EQ(assign(1)->wait(), "done");
  ASSERT_EQ(push(0)->wait(), "done");
  link->close("enough");
  link->join();
  const auto last = [&](CrashPoint point) { return std::ranges::find_end(points, std::array{point}).begin(); };
  ASSERT_NE(last(CrashPoint::kUpdated), points.end());
  ASSERT_NE(last(CrashPoint::kForwarded), points.end());
  EXPECT_LT(last(CrashPoint::kUpdated), last(CrashPoint::kConfirmed));
  EXPECT_LT(last(CrashPoint::kConfirmed), last(CrashPoint::kAnswered));
  ASSERT_NE(last(CrashPoint::kAnswered), points.end());
}

}  // namespace
}  // namespace trireme::ps
