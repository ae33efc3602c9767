#include "net/channel.h"

#include "base/error.h"

namespace trireme::net {

std::uint64_t Channel::share(std::shared_ptr<Segment> /*segment*/) {
  fail<InvalidArgument>("memory cannot be shared over {}", peer());
}

std::shared_ptr<Segment> Channel::shared(std::uint64_t /*id*/) { return nullptr; }

}  // namespace trireme::net
