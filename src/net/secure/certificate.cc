#include "net/secure/certificate.h"

#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include "base/error.h"
#include "net/asio.h"

namespace trireme::net {
namespace {

constexpr long kValidFor = 365L * 24 * 3600;
constexpr long kValidBefore = 24L * 3600;  // clocks of other machines may be behind

struct FreeOpenSsl {
  void operator()(X509* one) const { ::X509_free(one); }
  void operator()(EVP_PKEY* one) const { ::EVP_PKEY_free(one); }
  void operator()(BIO* one) const { ::BIO_free(one); }
  void operator()(X509_EXTENSION* one) const { ::X509_EXTENSION_free(one); }
};
template <typename T>
using OpenSsl = std::unique_ptr<T, FreeOpenSsl>;

std::string openssl_problem() {
  std::array<char, 256> text{};
  ::ERR_error_string_n(::ERR_get_error(), text.data(), text.size());
  return text.data();
}

void require(bool done, const char* what) {
  if (!done) fail<IoError>("cannot {}: {}", what, openssl_problem());
}

template <typename Write>
std::string to_pem(Write write) {
  const OpenSsl<BIO> memory(::BIO_new(::BIO_s_mem()));
  require(memory && write(memory.get()) == 1, "write a certificate");
  char* text = nullptr;
  const long size = BIO_get_mem_data(memory.get(), &text);
  return {text, static_cast<std::size_t>(size)};
}

OpenSsl<X509> read_certificate(const Certificate& certificate) {
  const OpenSsl<BIO> memory(::BIO_new_mem_buf(certificate.chain.data(), static_cast<int>(certificate.chain.size())));
  OpenSsl<X509> read(memory ? ::PEM_read_bio_X509(memory.get(), nullptr, nullptr, nullptr) : nullptr);
  if (!read) fail<InvalidArgument>("this is not a certificate in PEM: {}", openssl_problem());
  return read;
}

/// "DNS:node7,IP:10.0.0.7".
std::string alternative_names(const std::vector<std::string>& hosts) {
  std::vector<std::string> names;
  for (const std::string& host : hosts) {
    boost::system::error_code none;
    asio::ip::make_address(host, none);
    const bool plain = host.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:") ==
                       std::string::npos;
    if (!plain || host.empty()) fail<InvalidArgument>("'{}' is not the name of a host", host);
    names.push_back((none ? "DNS:" : "IP:") + host);
  }
  return fmt::format("{}", fmt::join(names, ","));
}

void add_extension(X509* certificate, int kind, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  ::X509V3_set_ctx(&context, certificate, certificate, nullptr, nullptr, 0);
  const OpenSsl<X509_EXTENSION> extension(::X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str()));
  require(extension && ::X509_add_ext(certificate, extension.get(), -1) == 1, "describe a certificate");
}

}  // namespace

Certificate make_certificate(const std::vector<std::string>& hosts) {
  const OpenSsl<EVP_PKEY> key(EVP_EC_gen("P-256"));
  const OpenSsl<X509> made(::X509_new());
  require(key && made, "make a key");
  std::array<unsigned char, 8> serial{};
  require(::RAND_bytes(serial.data(), static_cast<int>(serial.size())) == 1, "draw a serial number");
  std::uint64_t number = 0;
  for (const unsigned char byte : serial) number = number << 8 | byte;
  ::X509_set_version(made.get(), 2);  // X.509 v3
  ::ASN1_INTEGER_set_uint64(::X509_get_serialNumber(made.get()), number >> 1);
  ::X509_gmtime_adj(::X509_getm_notBefore(made.get()), -kValidBefore);
  ::X509_gmtime_adj(::X509_getm_notAfter(made.get()), kValidFor);
  ::X509_set_pubkey(made.get(), key.get());
  X509_NAME* const name = ::X509_get_subject_name(made.get());
  const std::string title = "Trireme";
  ::X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8, reinterpret_cast<const unsigned char*>(title.data()),
                               static_cast<int>(title.size()), -1, 0);
  ::X509_set_issuer_name(made.get(), name);
  add_extension(made.get(), NID_basic_constraints, "critical,CA:FALSE");
  add_extension(made.get(), NID_ext_key_usage, "serverAuth");
  if (!hosts.empty()) add_extension(made.get(), NID_subject_alt_name, alternative_names(hosts));
  require(::X509_sign(made.get(), key.get(), ::EVP_sha256()) > 0, "sign a certificate");
  return {.chain = to_pem([&](BIO* to) { return ::PEM_write_bio_X509(to, made.get()); }),
          .key = to_pem([&](BIO* to) {
            return ::PEM_write_bio_PrivateKey(to, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
          })};
}

std::string fingerprint(const Certificate& certificate) {
  const auto read = read_certificate(certificate);
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  require(::X509_digest(read.get(), ::EVP_sha256(), digest.data(), &size) == 1, "digest a certificate");
  std::string text;
  for (unsigned int i = 0; i < size; ++i) text += fmt::format("{}{:02X}", i == 0 ? "" : ":", digest[i]);
  return text;
}

std::shared_ptr<asio::ssl::context> make_server_context(const Certificate& certificate) {
  auto context = std::make_shared<asio::ssl::context>(asio::ssl::context::tls_server);
  ::SSL_CTX_set_min_proto_version(context->native_handle(), TLS1_2_VERSION);
  boost::system::error_code problem;
  context->use_certificate_chain(asio::buffer(certificate.chain), problem);
  if (problem) fail<InvalidArgument>("the certificate cannot be used: {}", problem.message());
  context->use_private_key(asio::buffer(certificate.key), asio::ssl::context::pem, problem);
  if (problem) fail<InvalidArgument>("the key cannot be used: {}", problem.message());
  if (::SSL_CTX_check_private_key(context->native_handle()) != 1) {
    fail<InvalidArgument>("the key is not that of the certificate");
  }
  return context;
}

}  // namespace trireme::net
