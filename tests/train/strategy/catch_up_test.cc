// Learners follow the state of a job.
#include <future>

#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/support/secret.h"
#include "train/strategy/catch_up_client.h"
#include "train/strategy/catch_up_server.h"

namespace trireme {
namespace {

/// A state that every step adds its gradient to.
class CatchUpTest : public ::testing::Test {
 protected:
  struct Copy {
    torch::Tensor values = torch::zeros({100, 10});
    torch::Tensor rest = torch::zeros({100'000});  // of the state: what no step changes
    torch::Tensor count = torch::zeros({1}, torch::kInt64);
    std::vector<Step> changes;
    std::unique_ptr<CatchUpClient> catch_up;
  };

  CatchUpTest() : feeds_(here_) { here_.enter_view(3); }

  net::RawStream come(View view = 3, Rank number = 7) {
    const Deadline deadline = Deadline::in(10s);
    return {
        there_.connect(here_.address(),
                       {.view = view, .group = "", .from = number, .to = 0, .purpose = collective::Purpose::kLearner},
                       net::Transport::kTcp, deadline),
        net::RawStream::Side::kConnected, deadline};
  }

  static void catch_up(Copy& copy, net::RawStream stream, std::size_t change_bytes = 4000) {
    copy.catch_up = std::make_unique<CatchUpClient>(
        std::move(stream), CatchUpClientOptions{.state = {copy.values, copy.rest, copy.count},
                                                .change_bytes = change_bytes,
                                                .on_state = [] {},
                                                .on_change =
                                                    [&copy](const StepChange& change, Bytes bytes) {
                                                      copy.changes.push_back(change.after.version);
                                                      const auto* sums = reinterpret_cast<const float*>(bytes.data());
                                                      if (change.updated) add(copy.values, sums, change.input);
                                                    }});
  }

  static void add(const torch::Tensor& values, const float* sums, const optim::UpdateInput& input) {
    const torch::Tensor gradient = torch::from_blob(const_cast<float*>(sums), values.sizes());
    values.sub_(gradient * input.lr * input.gradient_scale);
  }

  /// What a learner is told next.
  static CatchUpHeader::Kind next(net::RawStream& learner) {
    CatchUpHeader header;
    learner.recv_all(std::as_writable_bytes(std::span(&header, 1)), Deadline::in(10s));
    std::vector<std::byte> payload(header.bytes);
    learner.recv_all(payload, Deadline::in(10s));
    return header.kind;
  }

  /// How many steps a learner is told of until the end.
  static int changes_told(net::RawStream& learner) {
    int changes = 0;
    for (CatchUpHeader::Kind kind = next(learner); kind != CatchUpHeader::Kind::kEnd; kind = next(learner)) {
      changes += kind == CatchUpHeader::Kind::kChange ? 1 : 0;
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

  /// Waits until the one learner that is on its way is there.
  void accept(CatchUpServer& feeds) {
    const auto state = [&] {
      return std::vector<NamedParameter>{{"values", values_}, {"rest", rest_}, {"count", count_}};
    };
    const Deadline deadline = Deadline::in(10s);
    while (feeds.accept(at_, state) == 0) ASSERT_FALSE(deadline.passed());
  }
  void accept() { accept(feeds_); }

  collective::Endpoint here_{{.secret = kSecret}};
  collective::Endpoint there_{{.secret = kSecret}};
  torch::Tensor values_ = torch::rand({100, 10});
  torch::Tensor rest_ = torch::rand({100'000});
  torch::Tensor count_ = torch::full({1}, 42, torch::kInt64);
  Position at_{.fresh = false, .version = 10, .updates = 9};
  CatchUpServer feeds_;
};

TEST_F(CatchUpTest, LearnerGetsTheStateOfTheOthers) {
  Copy copy;
  catch_up(copy, come());
  accept();
  ASSERT_TRUE(copy.catch_up->wait_until_near());
  for (int i = 0; i < 5; ++i) step(/*updated=*/i != 2);
  feeds_.end();
  const auto reached = copy.catch_up->finish(Deadline::in(10s));
  ASSERT_TRUE(reached);
  EXPECT_FALSE(reached->fresh);
  EXPECT_EQ(reached->version, 15u);
  EXPECT_EQ(reached->updates, 13u);
  EXPECT_TRUE(torch::equal(copy.values, values_));
  EXPECT_TRUE(torch::equal(copy.rest, rest_));
  EXPECT_EQ(copy.count.item<std::int64_t>(), 42);
  EXPECT_EQ(copy.changes, (std::vector<Step>{11, 12, 13, 14, 15}));
}

TEST_F(CatchUpTest, AtTheEndSendsTheStateInsteadOfLargerChanges) {
  net::RawStream learner = come();  // which reads nothing for a while
  accept();
  const std::vector<float> much(kMiB);  // larger than the state, and than what fits into the sockets
  for (int i = 0; i < 8; ++i) feeds_.add({.after = at_}, {std::as_bytes(std::span(much))});
  feeds_.end();
  EXPECT_LT(changes_told(learner), 8);
}

TEST_F(CatchUpTest, SeveralLearnersCatchUpFromDifferentSteps) {
  std::array<Copy, 3> copies;
  for (Rank i = 0; i < copies.size(); ++i) {
    catch_up(copies[i], come(3, i));
    accept();
    step();
  }
  step();
  feeds_.end();
  for (Copy& copy : copies) {
    const auto reached = copy.catch_up->finish(Deadline::in(10s));
    ASSERT_TRUE(reached);
    EXPECT_EQ(reached->version, 14u);
    EXPECT_TRUE(torch::equal(copy.values, values_));
  }
}

TEST_F(CatchUpTest, StepsAfterTheEndAreNotSent) {
  Copy copy;
  catch_up(copy, come());
  accept();
  feeds_.end();
  step();
  const auto reached = copy.catch_up->finish(Deadline::in(10s));
  ASSERT_TRUE(reached);
  EXPECT_EQ(reached->version, 10u);
}

TEST_F(CatchUpTest, LearnerOfAnEarlierViewIsRefused) { EXPECT_THROW(come(2), StaleView); }

TEST_F(CatchUpTest, EndOfTheSourceLeavesAConsistentState) {
  Copy copy;
  {
    CatchUpServer source(here_);
    catch_up(copy, come());
    accept(source);
    ASSERT_TRUE(copy.catch_up->wait_until_near());
  }
  const auto reached = copy.catch_up->finish(Deadline::in(10s));
  ASSERT_TRUE(reached);
  EXPECT_EQ(reached->version, 10u);
  EXPECT_TRUE(torch::equal(copy.values, values_));
}

TEST_F(CatchUpTest, AnotherModelsStateIsNotTaken) {
  Copy copy;
  copy.values = torch::ones({100, 11});
  catch_up(copy, come());
  accept();
  EXPECT_FALSE(copy.catch_up->wait_until_near());
  EXPECT_FALSE(copy.catch_up->finish(Deadline::in(10s)));
  EXPECT_TRUE(torch::equal(copy.values, torch::ones({100, 11})));
}

TEST_F(CatchUpTest, ChangeOfAnotherSizeEndsCatchUp) {
  Copy copy;
  catch_up(copy, come(), /*change_bytes=*/4004);
  accept();
  ASSERT_TRUE(copy.catch_up->wait_until_near());
  step();
  const auto reached = copy.catch_up->finish(Deadline::in(10s));
  ASSERT_TRUE(reached);
  EXPECT_EQ(reached->version, 10u);
  EXPECT_TRUE(copy.changes.empty());
}

TEST_F(CatchUpTest, TooSlowLearnerIsGivenUp) {
  net::RawStream learner = come();  // which reads nothing for a while
  accept();
  const std::vector<float> much(4 * kMiB);
  for (int i = 0; i < 8; ++i) feeds_.add({.after = at_}, {std::as_bytes(std::span(much))});  // 64 MiB may wait
  EXPECT_EQ(next(learner), CatchUpHeader::Kind::kState);
  EXPECT_LE(changes_told(learner), 1);  // which was on its way; the end comes though nobody has asked for it
}

TEST_F(CatchUpTest, LearnerMayLeaveAtAnyTime) {
  { const net::RawStream learner = come(); }
  accept();
  for (const Deadline deadline = Deadline::in(10s); feeds_.any() && !deadline.passed();) step();
  EXPECT_FALSE(feeds_.any());
}

TEST_F(CatchUpTest, AnInterruptEndsTheWait) {
  Copy copy;
  catch_up(copy, come());  // the others take no step
  auto waits = std::async(std::launch::async, [&] { return copy.catch_up->wait_until_near(); });
  copy.catch_up->interrupt();
  EXPECT_FALSE(waits.get());
}

}  // namespace
}  // namespace trireme
