#include "net/route.h"

#include <boost/asio/ip/udp.hpp>

#include "base/error.h"
#include "net/asio.h"

namespace trireme::net {

Route route_to(const Address& address) {
  using asio::ip::udp;
  boost::system::error_code problem;
  asio::io_context context;
  for (const auto& found : udp::resolver(context).resolve(address.host, std::to_string(address.port), problem)) {
    const udp::endpoint there = found.endpoint();
    udp::socket socket(context);
    socket.open(there.protocol(), problem);
    if (!problem) socket.connect(there, problem);  // of UDP: only looks up the route
    if (problem) continue;                         // a name may have several addresses, such as localhost
    return {.from = socket.local_endpoint().address().to_string(), .to = there.address().to_string()};
  }
  fail<IoError>("there is no route to {}: {}", address.host, problem.message());
}

}  // namespace trireme::net
