#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "tests/support/own_network.h"
#include "tests/support/processes.h"
#include "tests/system/placed_job.h"

namespace trireme::system_test {

/// A machine as far as the network is concerned: a network of its own, held by a process until the end of the test. To
/// be made while this process has one thread.
class Host {
 public:
  /// The first host of a test. Null where networks are not permitted.
  static std::unique_ptr<Host> make(const std::string& address) {
    std::unique_ptr<Host> host(new Host(address, [] { return enter_own_network(); }));
    return host->made_ ? std::move(host) : nullptr;
  }

  /// Another one, with a cable between the two. A host has one cable.
  std::unique_ptr<Host> make_neighbour(const std::string& address) const {
    std::unique_ptr<Host> other(new Host(address, [&] {
      enter_namespaces_of(holder_.pid(), /*network=*/false);
      return ::unshare(CLONE_NEWNET) == 0;
    }));
    if (!other->made_) fail<IoError>("cannot make a second network");
    run([&] { add_cable(kCable, other->holder_.pid()); });
    for (const Host* host : {this, static_cast<const Host*>(other.get())}) {
      host->run([&] {
        bring_up("lo", "127.0.0.1");
        bring_up(kCable, host->address_);
      });
    }
    return other;
  }

  /// `count` hosts with a cable each to a router, which is the first one here: every pair of them can be cut. None
  /// where networks are not permitted.
  static std::vector<std::unique_ptr<Host>> make_routed(int count) {
    std::vector<std::unique_ptr<Host>> hosts;
    hosts.push_back(make("10.99.0.1"));
    if (!hosts[0]) return {};
    const Host& router = *hosts[0];
    router.run([] { become_router(); });
    for (int number = 1; number <= count; ++number) {
      const std::string cable = fmt::format("cable{}", number);
      std::unique_ptr<Host> host(new Host(fmt::format("10.99.{}.2", number), [&] {
        enter_namespaces_of(router.holder_.pid(), /*network=*/false);
        return ::unshare(CLONE_NEWNET) == 0;
      }));
      const std::string gateway = fmt::format("10.99.{}.1", number);
      router.run([&] {
        add_cable(cable, host->holder_.pid());
        bring_up(cable, gateway);
      });
      host->run([&] {
        bring_up("lo", "127.0.0.1");
        bring_up(cable, host->address_);
        set_router(gateway);
      });
      hosts.push_back(std::move(host));
    }
    return hosts;
  }

  const std::string& address() const { return address_; }

  /// For processes on this host. nsenter (util-linux) becomes the program that it is given: its pid is the program's.
  Site site() const {
    std::vector<std::string> words{"/usr/bin/nsenter", "--target", std::to_string(holder_.pid()), "--net"};
    if (user_namespace("self") != user_namespace(std::to_string(holder_.pid()))) {
      words.insert(words.end(), {"--user", "--preserve-credentials"});
    }
    return {.address = address_, .enter_with = words};
  }

  /// Does something in a process on this host. Throws IoError if it fails there.
  void run(const std::function<void()>& action) const {
    Process inside([&](Talk&) {
      enter_namespaces_of(holder_.pid(), /*network=*/true);
      action();
    });
    if (inside.wait() != 0) fail<IoError>("a process on host {} failed: see above", address_);
  }

  /// Asks something there. Throws PeerLost if that fails.
  nlohmann::json ask(const std::function<nlohmann::json()>& question) const {
    Process inside([&](Talk& test) {
      enter_namespaces_of(holder_.pid(), /*network=*/true);
      test.say(question());
    });
    return inside.talk().hear();
  }

 private:
  static constexpr const char* kCable = "trireme0";

  Host(std::string address, const std::function<bool()>& enter)
      : address_(std::move(address)), holder_([&](Talk& test) {
          test.say(enter());
          test.hear(1h);  // until the test ends
        }) {
    made_ = holder_.talk().hear().get<bool>();
  }

  static std::string user_namespace(const std::string& pid) {
    return std::filesystem::read_symlink("/proc/" + pid + "/ns/user").string();
  }

  const std::string address_;
  Process holder_;
  bool made_ = false;
};

}  // namespace trireme::system_test
