// The body of a frame from a peer, read as each kind of message. The input is MessagePack; where it is JSON text, the
// same value as MessagePack is read too, so that mutations of names and numbers get past the outer form.
#include "cluster/protocol.h"
#include "net/message_codec.h"
#include "ps/protocol.h"
#include "tests/fuzz/fuzz.h"

namespace trireme {
namespace {

template <typename Message>
void decode_as(Bytes body) {
  fuzz::returns_or_refuses([&] {
    const std::string once = net::encode_message(net::decode_message<Message>(body));
    const std::string twice = net::encode_message(net::decode_message<Message>(as_bytes(once)));
    fuzz::require(once == twice, "a message is not what it was once encoded");
  });
}

template <typename... Messages>
void decode_as_each(Bytes body) {
  (decode_as<Messages>(body), ...);
}

void decode(Bytes body) {
  if (!fuzz::returns_or_refuses([&] { net::decode_json(body); })) return;
  decode_as_each<cluster::JoinRequest, cluster::JoinReply, cluster::Plan, cluster::Heartbeat, cluster::HeartbeatReply,
                 cluster::LeaseRequest, cluster::LeaseReply, cluster::RewindRequest, cluster::StopRequest,
                 cluster::LeaveNotice, cluster::ScaleRequest, cluster::ResultReport, cluster::JobStatus>(body);
  decode_as_each<ps::OpenRequest, ps::OpenReply, ps::PushPullRequest, StepOutcome, ps::LoadStatus, ps::LeaveRequest,
                 ps::ServerStats, ps::ChunkHeader, ps::FetchRequest, ps::SaveRequest, ps::SaveReply, ps::SyncRequest,
                 ps::SyncReply, ps::InstallRequest, ps::ReplicateRequest>(body);
  const bool returned = fuzz::returns_or_refuses([&] { net::throw_error(net::decode_message<net::ErrorBody>(body)); });
  fuzz::require(!returned, "an error reply did not throw");
}

}  // namespace
}  // namespace trireme

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace trireme;
  const std::string_view text = fuzz::text_of(data, size);
  decode(as_bytes(text));
  const auto value = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!value.is_discarded()) decode(as_bytes(net::encode_json(value)));
  return 0;
}
