#include "net/secure/tls.h"

#include <cstring>

#include "base/error.h"
#include "base/hash.h"

namespace trireme::net {
namespace {

constexpr unsigned char kIdentity[] = "trireme job";
constexpr std::size_t kIdentityBytes = sizeof(kIdentity) - 1;

struct PskKey {
  Digest key;
};

void free_key(void* /*parent*/, void* key, CRYPTO_EX_DATA* /*data*/, int /*index*/, long /*argl*/, void* /*argp*/) {
  delete static_cast<PskKey*>(key);
}

int key_index() {
  static const int index = SSL_CTX_get_ex_new_index(0, nullptr, nullptr, nullptr, free_key);
  return index;
}

/// The pre-shared key in the form OpenSSL wants it: as if a session were resumed.
SSL_SESSION* make_session(SSL* ssl) {
  const auto* key = static_cast<const PskKey*>(SSL_CTX_get_ex_data(SSL_get_SSL_CTX(ssl), key_index()));
  constexpr unsigned char kAes128GcmSha256[] = {0x13, 0x01};
  const SSL_CIPHER* cipher = SSL_CIPHER_find(ssl, kAes128GcmSha256);
  SSL_SESSION* session = SSL_SESSION_new();
  const bool made =
      session != nullptr && cipher != nullptr &&
      SSL_SESSION_set1_master_key(session, reinterpret_cast<const unsigned char*>(key->key.data()), key->key.size()) &&
      SSL_SESSION_set_cipher(session, cipher) && SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION);
  if (made) return session;
  SSL_SESSION_free(session);
  return nullptr;
}

int use_session(SSL* ssl, const EVP_MD* /*digest*/, const unsigned char** id, std::size_t* id_bytes,
                SSL_SESSION** session) {
  *id = kIdentity;
  *id_bytes = kIdentityBytes;
  *session = make_session(ssl);
  return *session != nullptr;
}

int find_session(SSL* ssl, const unsigned char* identity, std::size_t bytes, SSL_SESSION** session) {
  const bool ours = bytes == kIdentityBytes && std::memcmp(identity, kIdentity, bytes) == 0;
  *session = ours ? make_session(ssl) : nullptr;
  return 1;
}

}  // namespace

std::shared_ptr<asio::ssl::context> make_tls_context(const std::string& secret) {
  auto context = std::make_shared<asio::ssl::context>(asio::ssl::context::tls);
  SSL_CTX* native = context->native_handle();
  SSL_CTX_set_min_proto_version(native, TLS1_3_VERSION);
  SSL_CTX_set_num_tickets(native, 0);
  if (SSL_CTX_set_ciphersuites(native, "TLS_AES_128_GCM_SHA256") != 1) fail<IoError>("OpenSSL lacks AES-128-GCM");
  auto key = std::make_unique<PskKey>(PskKey{hmac_sha256(as_bytes(secret), as_bytes("trireme tls pre-shared key"))});
  TRIREME_CHECK(SSL_CTX_set_ex_data(native, key_index(), key.release()) == 1);
  SSL_CTX_set_psk_use_session_callback(native, use_session);
  SSL_CTX_set_psk_find_session_callback(native, find_session);
  return context;
}

std::string tls_channel_binding(TlsStream& stream) {
  constexpr std::string_view kLabel = "EXPORTER-trireme-handshake";
  std::string known(32, '\0');
  if (SSL_export_keying_material(stream.native_handle(), reinterpret_cast<unsigned char*>(known.data()), known.size(),
                                 kLabel.data(), kLabel.size(), nullptr, 0, 0) != 1) {
    fail<Unauthenticated>("OpenSSL does not tell what the TLS connection is bound to");
  }
  return known;
}

}  // namespace trireme::net
