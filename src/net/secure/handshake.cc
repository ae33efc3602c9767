#include "net/secure/handshake.h"

#include <algorithm>
#include <cstddef>

#include <openssl/rand.h>

namespace trireme::net {

Nonce fresh_nonce() {
  Nonce nonce;
  if (RAND_bytes(reinterpret_cast<unsigned char*>(nonce.data()), static_cast<int>(nonce.size())) != 1) {
    fail<IoError>("the system gave no random bytes");
  }
  return nonce;
}

Label label_of(const std::string& text) {
  Label label{};
  TRIREME_CHECK(text.size() <= label.size(), "'{}' does not fit into a handshake", text);
  std::ranges::copy(text, label.begin());
  return label;
}

std::string text_of(const Label& label) { return {label.begin(), std::ranges::find(label, '\0')}; }

Transcript::Transcript(std::string secret, const Hello& hello, const Answer& answer, const std::string& channel)
    : secret_(std::move(secret)) {
  said_.append(reinterpret_cast<const char*>(&hello), sizeof(hello));
  said_.append(reinterpret_cast<const char*>(&answer), offsetof(Answer, proof));
  said_ += channel;
}

Digest Transcript::proof(std::string_view side) const {
  return hmac_sha256(as_bytes(secret_), as_bytes(fmt::format("trireme handshake {} ", side) + said_));
}

FrameKeys Transcript::keys() const {
  return {.to_service = hmac_sha256(as_bytes(secret_), as_bytes("trireme frames to the service " + said_)),
          .to_client = hmac_sha256(as_bytes(secret_), as_bytes("trireme frames to the client " + said_))};
}

std::optional<Verdict> find_mismatch(const Hello& hello, const HandshakeScope& own) {
  if (hello.carrier != own.carrier) return Verdict::kOtherCarrier;
  if (hello.role != Label{} && !own.role.empty() && hello.role != label_of(own.role)) return Verdict::kOtherRole;
  if (hello.identity != Label{} && hello.identity != label_of(own.identity)) return Verdict::kOtherIdentity;
  return std::nullopt;
}

void check_answer(const Answer& answer, const HandshakeScope& wanted) {
  if (answer.magic != kMagic) fail<Unauthenticated>("what answers there is not Trireme");
  if (answer.version != kProtocolVersion) fail_other_version(answer.version);
  switch (answer.verdict) {
    case Verdict::kAccepted:
      return;
    case Verdict::kMustEncrypt:
      fail<Unauthenticated>(
          "it accepts TLS only from other hosts: leave out --transport tcp, or allow it with --allow-plain");
    case Verdict::kOtherRole:
      fail<Unauthenticated>("what answers there is no {}: check the address", wanted.role);
    case Verdict::kOtherIdentity:
      fail<PeerLost>("another process listens at its address now: it has ended");
    default:
      fail<Unauthenticated>("it does not receive what we send: something on the way passes it on to others");
  }
}

void fail_other_version(std::uint16_t theirs) {
  fail<Unauthenticated>("it speaks protocol version {}, this process {}: use one build of Trireme everywhere", theirs,
                        kProtocolVersion);
}

void fail_mismatch(Verdict verdict, const Hello& hello) {
  switch (verdict) {
    case Verdict::kMustEncrypt:
      fail<Unauthenticated>("it did not encrypt; connections from other hosts must use TLS");
    case Verdict::kOtherRole:
      fail<Unauthenticated>("it looks for a {}, which this process is not", text_of(hello.role));
    case Verdict::kOtherIdentity:
      fail<Unauthenticated>("it looks for another process, which had this address before, or is somewhere else");
    default:
      fail<Unauthenticated>("its connection is not the one that it began: something on the way passes it on");
  }
}

}  // namespace trireme::net
