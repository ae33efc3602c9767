// Two workers that reach the master, but not each other: three hosts, as networks of this machine, a cable between each
// two of them. One cable is pulled: nobody's connection ends, nothing comes any more.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "job/job_session.h"
#include "master/master.h"
#include "tests/support/own_network.h"
#include "tests/support/processes.h"
#include "tests/support/secret.h"
#include "tests/support/temp_folder.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;

/// The end of a cable.
struct Plug {
  std::string interface;
  std::string address;
};

void bring_up_all(const std::vector<Plug>& plugs) {
  bring_up("lo", "127.0.0.1");
  for (const Plug& plug : plugs) bring_up(plug.interface, plug.address);
}

void be_the_master(Talk& test) {
  test.say(enter_own_network());
  add_cable("master0", test.hear());
  add_cable("master1", test.hear());
  bring_up_all({{"master0", "10.99.1.1"}, {"master1", "10.99.2.1"}});
  master::Master master({.service = {.listener = {.name = "master", .host = "0.0.0.0", .secret = kSecret}},
                         .shape = {.workers = 2, .servers = 0},
                         .hang_after = 3s});
  test.say(master.address().port);
  while (test.hear() != "end") {
    const cluster::JobStatus status = master.status();
    test.say({{"reason", status.reason}, {"view", status.view}, {"others", slots_of(status.others)}});
  }
}

struct WorkerPlace {
  Rank rank;
  std::string master;
  std::vector<Plug> plugs;  ///< the last one to the other worker
  std::string folder;
};

void be_a_worker(const WorkerPlace& place, Talk& test) {
  enter_namespaces_of(test.hear(), /*network=*/false);
  test.say(::unshare(CLONE_NEWNET) == 0);
  if (place.rank == 0) add_cable(place.plugs.back().interface, test.hear());
  if (place.rank == 0) test.say("laid");
  test.hear();  // all cables are there
  bring_up_all(place.plugs);
  JobSession job(cluster::JobEnvironment{.rank = place.rank,
                                         .workers = 2,
                                         .servers = 0,
                                         .master = {.host = place.master, .port = test.hear()},
                                         .listen = {.host = place.plugs.back().address},
                                         .secret = kSecret,
                                         .run_folder = place.folder});
  job.membership().set_plan({.steps = 1000, .batch = 2, .lanes = 2, .elastic = true});
  std::vector<float> values(1000, 1);
  job.ranks().run(collective::all_reduce(std::span(values)));
  test.say(values.front());
  test.hear();  // both are at work
  if (place.rank == 0) bring_down(place.plugs.back().interface);
  try {
    for (;;) job.ranks().run(collective::all_reduce(std::span(values)));  // with the deadline of a step
  } catch (const Timeout& problem) {
    test.say(problem.what());
    if (!job.regroup(problem.what())) return;
  }
  test.say(job.view().workers.size());
  values.assign(1000, 1);
  job.ranks().run(collective::all_reduce(std::span(values)));
  test.say(values.front());
  test.hear();
}

TEST(ApartWorkers, OneOfThemGoesOnAndTheOtherIsLeftOut) {
  const TempFolder folder;
  Process master([](Talk& test) { be_the_master(test); });
  if (master.talk().hear() == false) GTEST_SKIP() << "network namespaces are not permitted here";
  std::vector<Process> workers;
  workers.emplace_back([&](Talk& test) {
    be_a_worker({0, "10.99.1.1", {{"master0", "10.99.1.2"}, {"between", "10.99.3.1"}}, folder.path()}, test);
  });
  workers.emplace_back([&](Talk& test) {
    be_a_worker({1, "10.99.2.1", {{"master1", "10.99.2.2"}, {"between", "10.99.3.2"}}, folder.path()}, test);
  });
  for (Process& worker : workers) {
    worker.talk().say(master.pid());
    ASSERT_EQ(worker.talk().hear(), true);
  }
  for (const Process& worker : workers) master.talk().say(worker.pid());
  workers[0].talk().say(workers[1].pid());
  ASSERT_EQ(workers[0].talk().hear(), "laid");
  const nlohmann::json port = master.talk().hear();
  for (Process& worker : workers) {
    worker.talk().say("all cables are there");
    worker.talk().say(port);
  }
  for (Process& worker : workers) ASSERT_EQ(worker.talk().hear(), 2.0);
  for (Process& worker : workers) worker.talk().say("both are at work");

  // Far earlier than the deadline of a step, which is ten minutes.
  for (Process& worker : workers)
    EXPECT_THAT(worker.talk().hear().get<std::string>(), HasSubstr("was not heard of for"));
  EXPECT_EQ(workers[0].talk().hear(), 1) << "it goes on alone";
  EXPECT_EQ(workers[0].talk().hear(), 1.0);
  master.talk().say("status");
  const nlohmann::json status = master.talk().hear();
  EXPECT_THAT(status["reason"].get<std::string>(),
              HasSubstr("worker 1 is left out: it and worker 0 reach the master, but not each other"));
  EXPECT_EQ(status["view"], 2) << "no views in vain";
  EXPECT_EQ(status["others"], nlohmann::json{1});
  master.talk().say("end");
}

}  // namespace
}  // namespace trireme
