// A host that is no longer there, as far as packets tell: two networks of this machine, and a cable that is pulled.
#include "net/connection.h"
#include "tests/net/testing.h"
#include "tests/support/expect_fails.h"
#include "tests/support/own_network.h"
#include "tests/support/processes.h"

namespace trireme::net {
namespace {

constexpr const char* kCable = "trireme0";

void be_the_service(Talk& test) {
  test.say(trireme::enter_own_network());
  add_cable(kCable, test.hear());
  bring_up("lo", "127.0.0.1");
  bring_up(kCable, "10.99.0.1");
  EchoHandler handler;
  ServiceOptions options = echo_options();
  options.listener.host = "10.99.0.1";
  const Service service(options, handler);
  test.say(service.address());
  test.hear();
}

void be_the_client(Talk& test) {
  enter_namespaces_of(test.hear(), /*network=*/false);
  test.say(::unshare(CLONE_NEWNET) == 0);
  const auto address = test.hear().get<Address>();
  bring_up("lo", "127.0.0.1");
  bring_up(kCable, "10.99.0.2");
  EventLoop loop("client");
  ConnectionOptions options = connect_options(Transport::kTls, 30s);
  options.silent_after = 2s;
  const auto connection = Connection::open(loop, address, options);
  EXPECT_EQ(ask(*connection, "are you there?"), "are you there?");

  const auto busy = Connection::open(loop, address, options);
  try {  // its host shows signs of life, however long it takes
    busy->call<Text>(kSilence, 0, Text{}, Deadline::in(4s), "a long answer");
    ADD_FAILURE() << "it answered";
  } catch (const HostSilent& problem) {
    ADD_FAILURE() << problem.what();
  } catch (const Timeout&) {  // the deadline, and nothing else
  }

  bring_down(kCable);
  EXPECT_FAILS(connection->call<Text>(kSilence, 0, Text{}, Deadline::in(1h), "a question"), HostSilent, "the echo",
               "for 2.0 s", "a question");
  options.deadline = Deadline::in(1h);
  EXPECT_FAILS(Connection::open(loop, address, options), HostSilent, "the echo", "does not answer");
  test.say("done");
}

TEST(HostSilence, EndsAWaitLongBeforeItsDeadline) {
  Process service([](Talk& test) { be_the_service(test); });
  if (service.talk().hear() == false) GTEST_SKIP() << "network namespaces are not permitted here";
  Process client([](Talk& test) { be_the_client(test); });
  client.talk().say(service.pid());
  ASSERT_EQ(client.talk().hear(), true);
  service.talk().say(client.pid());
  client.talk().say(service.talk().hear());
  EXPECT_EQ(client.talk().hear(), "done");
  EXPECT_EQ(client.wait(), 0);
}

}  // namespace
}  // namespace trireme::net
