#pragma once

#include <functional>

#include <gtest/gtest.h>

#include "dist/world.h"
#include "tests/collective/testing.h"

namespace trireme::dist {

/// Runs `body` on `size` ranks, each on a thread of its own; what any of them throws is a failure of the test.
inline void run_worlds(std::uint32_t size, const std::function<void(World& world)>& body,
                       net::Transport transport = net::Transport::kAuto) {
  collective::CommunicatorOptions options;
  options.transport = transport;
  collective::expect_ranks(size, options, [&](collective::Communicator& ranks) {
    World world(ranks);
    body(world);
    world.finish();
  });
}

}  // namespace trireme::dist
