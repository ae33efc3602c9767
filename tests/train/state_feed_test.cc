// Guests follow the state of a job.
#include "trireme/train/state_feed.h"

#include <future>

#include <gtest/gtest.h>

#include "trireme/base/error.h"
#include "trireme/train/state_follower.h"

namespace trireme {
namespace {

const std::string kSecret = "the secret of these tests";

/// A state that every step adds its gradient to.
class StateFeedTest : public ::testing::Test {
 protected:
  struct Copy {
    torch::Tensor values = torch::zeros({100, 10});
    torch::Tensor rest = torch::zeros({100'000});  // of the state: what no step changes
    torch::Tensor count = torch::zeros({1}, torch::kInt64);
    std::vector<Step> changes;
    std::unique_ptr<StateFollower> follower;
  };

  StateFeedTest() : feeds_(here_) { here_.enter_view(3); }

  collective::Stream come(View view = 3, Rank number = 7) {
    const Deadline deadline = Deadline::in(10s);
    return {there_.connect(here_.address(),
                           {.view = view, .group = "", .from = number, .to = 0, .purpose = collective::Purpose::kGuest},
                           net::Transport::kTcp, deadline),
            collective::Stream::Side::kConnected, deadline};
  }

  static void follow(Copy& copy, collective::Stream stream, std::size_t change_bytes = 4000) {
    copy.follower = std::make_unique<StateFollower>(
        std::move(stream), FollowerOptions{.state = {copy.values, copy.rest, copy.count},
                                           .change_bytes = change_bytes,
                                           .on_state = [] {},
                                           .on_change =
                                               [&copy](const StepChange& change, Bytes bytes) {
                                                 copy.changes.push_back(change.after.version);
                                                 const auto* sums = reinterpret_cast<const float*>(bytes.data());
                                                 if (change.updated) add(copy.values, sums, change.input);
                                               }});
  }

  static void add(const torch::Tensor& values, const float* sums, const ps::UpdateInput& input) {
    const torch::Tensor gradient = torch::from_blob(const_cast<float*>(sums), values.sizes());
    values.sub_(gradient * input.lr * input.gradient_scale);
  }

  /// What a guest is told next.
  static StateHeader::Kind next(collective::Stream& guest) {
    StateHeader header;
    guest.recv_all(std::as_writable_bytes(std::span(&header, 1)), Deadline::in(10s));
    std::vector<std::byte> payload(header.bytes);
    guest.recv_all(payload, Deadline::in(10s));
    return header.kind;
  }

  /// How many steps a guest is told of until the end.
  static int changes_told(collective::Stream& guest) {
    int changes = 0;
    for (StateHeader::Kind kind = next(guest); kind != StateHeader::Kind::kEnd; kind = next(guest)) {
      changes += kind == StateHeader::Kind::kChange ? 1 : 0;
    }
    return changes;
  }

  /// One step of the job, here and for whoever follows.
  void step(bool updated = true) {
    const torch::Tensor sums = torch::rand({100, 10});
    StepChange change{.after = {.fresh = false, .version = ++at_.version, .updates = at_.updates},
                      .updated = updated,
                      .input = {.step = at_.updates, .lr = 0.1, .gradient_scale = 0.25}};
    if (updated) {
      change.after.updates = change.input.step = ++at_.updates;
      add(values_, sums.data_ptr<float>(), change.input);
    }
    if (feeds_.any()) feeds_.add(change, {{reinterpret_cast<const std::byte*>(sums.data_ptr()), sums.nbytes()}});
  }

  /// Waits until the one guest that is on its way is there.
  void let_in(StateFeeds& feeds) {
    const auto state = [&] {
      return std::vector<NamedParameter>{{"values", values_}, {"rest", rest_}, {"count", count_}};
    };
    const Deadline deadline = Deadline::in(10s);
    while (feeds.welcome(at_, state) == 0) ASSERT_FALSE(deadline.passed());
  }
  void let_in() { let_in(feeds_); }

  collective::Endpoint here_{{.secret = kSecret}};
  collective::Endpoint there_{{.secret = kSecret}};
  torch::Tensor values_ = torch::rand({100, 10});
  torch::Tensor rest_ = torch::rand({100'000});
  torch::Tensor count_ = torch::full({1}, 42, torch::kInt64);
  Advance at_{.fresh = false, .version = 10, .updates = 9};
  StateFeeds feeds_;
};

TEST_F(StateFeedTest, AGuestHasWhatTheOthersHave) {
  Copy copy;
  follow(copy, come());
  let_in();
  ASSERT_TRUE(copy.follower->wait_until_near());
  for (int i = 0; i < 5; ++i) step(/*updated=*/i != 2);
  feeds_.end();
  const auto reached = copy.follower->finish(Deadline::in(10s));
  ASSERT_TRUE(reached);
  EXPECT_FALSE(reached->fresh);
  EXPECT_EQ(reached->version, 15u);
  EXPECT_EQ(reached->updates, 13u);
  EXPECT_TRUE(torch::equal(copy.values, values_));
  EXPECT_TRUE(torch::equal(copy.rest, rest_));
  EXPECT_EQ(copy.count.item<std::int64_t>(), 42);
  EXPECT_EQ(copy.changes, (std::vector<Step>{11, 12, 13, 14, 15}));
}

TEST_F(StateFeedTest, AtTheEndAllOfTheStateIsBetterThanMoreThanThat) {
  collective::Stream guest = come();  // which reads nothing for a while
  let_in();
  const std::vector<float> much(kMiB);  // larger than the state, and than what fits into the sockets
  for (int i = 0; i < 8; ++i) feeds_.add({.after = at_}, {std::as_bytes(std::span(much))});
  feeds_.end();
  EXPECT_LT(changes_told(guest), 8);
}

TEST_F(StateFeedTest, SeveralFollowFromDifferentSteps) {
  std::array<Copy, 3> copies;
  for (Rank i = 0; i < copies.size(); ++i) {
    follow(copies[i], come(3, i));
    let_in();
    step();
  }
  step();
  feeds_.end();
  for (Copy& copy : copies) {
    const auto reached = copy.follower->finish(Deadline::in(10s));
    ASSERT_TRUE(reached);
    EXPECT_EQ(reached->version, 14u);
    EXPECT_TRUE(torch::equal(copy.values, values_));
  }
}

TEST_F(StateFeedTest, NobodyIsToldAnythingAfterTheEnd) {
  Copy copy;
  follow(copy, come());
  let_in();
  feeds_.end();
  step();
  const auto reached = copy.follower->finish(Deadline::in(10s));
  ASSERT_TRUE(reached);
  EXPECT_EQ(reached->version, 10u);
}

TEST_F(StateFeedTest, OneThatComesForAnEarlierViewIsRefused) { EXPECT_THROW(come(2), StaleView); }

TEST_F(StateFeedTest, TheEndOfTheSourceLeavesAWholeState) {
  Copy copy;
  {
    StateFeeds source(here_);
    follow(copy, come());
    let_in(source);
    ASSERT_TRUE(copy.follower->wait_until_near());
  }
  const auto reached = copy.follower->finish(Deadline::in(10s));
  ASSERT_TRUE(reached);
  EXPECT_EQ(reached->version, 10u);
  EXPECT_TRUE(torch::equal(copy.values, values_));
}

TEST_F(StateFeedTest, AnotherModelsStateIsNotTaken) {
  Copy copy;
  copy.values = torch::ones({100, 11});
  follow(copy, come());
  let_in();
  EXPECT_FALSE(copy.follower->wait_until_near());
  EXPECT_FALSE(copy.follower->finish(Deadline::in(10s)));
  EXPECT_TRUE(torch::equal(copy.values, torch::ones({100, 11})));
}

TEST_F(StateFeedTest, AChangeOfAnotherSizeEndsIt) {
  Copy copy;
  follow(copy, come(), /*change_bytes=*/4004);
  let_in();
  ASSERT_TRUE(copy.follower->wait_until_near());
  step();
  const auto reached = copy.follower->finish(Deadline::in(10s));
  ASSERT_TRUE(reached);
  EXPECT_EQ(reached->version, 10u);
  EXPECT_TRUE(copy.changes.empty());
}

TEST_F(StateFeedTest, OneThatCannotKeepUpIsGivenUp) {
  collective::Stream guest = come();  // which reads nothing for a while
  let_in();
  const std::vector<float> much(4 * kMiB);
  for (int i = 0; i < 8; ++i) feeds_.add({.after = at_}, {std::as_bytes(std::span(much))});  // 64 MiB may wait
  EXPECT_EQ(next(guest), StateHeader::Kind::kState);
  EXPECT_LE(changes_told(guest), 1);  // which was on its way; the end comes though nobody has asked for it
}

TEST_F(StateFeedTest, AGuestMayGoAtAnyTime) {
  { const collective::Stream guest = come(); }
  let_in();
  for (const Deadline deadline = Deadline::in(10s); feeds_.any() && !deadline.passed();) step();
  EXPECT_FALSE(feeds_.any());
}

TEST_F(StateFeedTest, AnInterruptEndsTheWait) {
  Copy copy;
  follow(copy, come());  // the others take no step
  auto waits = std::async(std::launch::async, [&] { return copy.follower->wait_until_near(); });
  copy.follower->interrupt();
  EXPECT_FALSE(waits.get());
}

}  // namespace
}  // namespace trireme
