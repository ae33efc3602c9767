#include <algorithm>

#include "base/bytes.h"
#include "base/error.h"
#include "collective/communicator.h"
#include "net/message_codec.h"

namespace trireme::collective {
namespace {

/// Returns the full addresses of all ranks: those on the same host learn from them how to share memory.
std::vector<net::Address> gather_addresses(Communicator& ranks, const net::Address& own) {
  constexpr std::size_t kRecord = 1024;  // u32 size, then the address as MessagePack
  const std::string encoded = net::encode_message(own);
  TRIREME_CHECK(encoded.size() + sizeof(std::uint32_t) <= kRecord, "an address of {} bytes", encoded.size());
  std::vector<std::byte> mine(kRecord);
  store_le(mine, static_cast<std::uint32_t>(encoded.size()));
  std::ranges::copy(as_bytes(encoded), mine.begin() + sizeof(std::uint32_t));
  std::vector<std::byte> all(kRecord * ranks.size());
  ranks.run(all_gather(ConstArray(DType::kU8, mine.data(), mine.size()), Array(DType::kU8, all.data(), all.size())));
  std::vector<net::Address> addresses;
  for (Rank rank = 0; rank < ranks.size(); ++rank) {
    const Bytes record = Bytes(all).subspan(rank * kRecord, kRecord);
    const std::size_t size = std::min<std::size_t>(load_le<std::uint32_t>(record), kRecord - sizeof(std::uint32_t));
    addresses.push_back(net::decode_message<net::Address>(record.subspan(sizeof(std::uint32_t), size)));
  }
  return addresses;
}

}  // namespace

std::unique_ptr<Communicator> connect(const ConnectOptions& options) {
  if (options.rank >= options.addresses.size()) {
    fail<InvalidArgument>("rank {} has no address among the {} given", options.rank, options.addresses.size());
  }
  if (options.secret.empty()) {
    fail<InvalidArgument>(
        "the ranks need a secret that all of them know; for example: head -c 32 /dev/urandom | base64");
  }
  CommunicatorOptions group{.rank = options.rank,
                            .transport = net::parse_transport(options.transport),
                            .connect_within = options.within,
                            .deadline = options.deadline};
  for (const std::string& address : options.addresses) group.members.push_back(net::parse_address(address));
  const net::Address own = group.members[options.rank];
  const auto endpoint =
      std::make_shared<Endpoint>(EndpointOptions{.host = own.host,
                                                 .port = own.port,
                                                 .secret = options.secret,
                                                 .allow_plain = group.transport == net::Transport::kTcp,
                                                 .await_peers = true});
  const bool may_share = group.transport == net::Transport::kAuto || group.transport == net::Transport::kShm;
  if (may_share) {  // first over the network: only a rank itself knows on which host it runs
    CommunicatorOptions first = group;
    first.transport = net::Transport::kAuto;
    Communicator ranks(endpoint, std::move(first));
    group.members = gather_addresses(ranks, endpoint->address());
    group.view = 2;
  }
  return std::make_unique<Communicator>(endpoint, std::move(group));
}

}  // namespace trireme::collective
