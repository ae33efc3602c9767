#pragma once

#include <string>

#include <boost/asio/ssl.hpp>
#include <fmt/format.h>
#include <openssl/x509.h>

#include "net/asio.h"
#include "tests/support/http.h"

namespace trireme {

struct HttpsAnswer {
  HttpAnswerText http;
  std::string fingerprint;  ///< SHA-256 of the certificate that the server showed
};

/// As http_ask, but over TLS, and whatever the certificate is. Reads until the server closes, or `until` came.
inline HttpsAnswer https_ask(std::uint16_t port, const std::string& request_line, const std::string& headers = "",
                             const std::string& body = "", const std::string& host = "localhost",
                             const std::string& until = "") {
  namespace asio = net::asio;
  asio::io_context context;
  asio::ssl::context tls(asio::ssl::context::tls_client);
  asio::ssl::stream<net::tcp::socket> stream(context, tls);
  stream.next_layer().connect({asio::ip::make_address("127.0.0.1"), port});
  const timeval patience{.tv_sec = 20, .tv_usec = 0};
  ::setsockopt(stream.next_layer().native_handle(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  stream.handshake(asio::ssl::stream_base::client);
  HttpsAnswer answer;
  if (X509* const shown = ::SSL_get1_peer_certificate(stream.native_handle())) {
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned int size = 0;
    ::X509_digest(shown, ::EVP_sha256(), digest, &size);
    for (unsigned int i = 0; i < size; ++i) answer.fingerprint += fmt::format("{}{:02X}", i == 0 ? "" : ":", digest[i]);
    ::X509_free(shown);
  }
  const bool upgrade = headers.find("Upgrade") != std::string::npos;
  asio::write(stream, asio::buffer(request_line + " HTTP/1.1\r\nHost: " + host + "\r\n" +
                                   (upgrade ? "" : "Connection: close\r\n") + "Content-Length: " +
                                   std::to_string(body.size()) + "\r\n" + headers + "\r\n" + body));
  std::string text;
  boost::system::error_code problem;
  while (!problem && (until.empty() || text.find(until) == std::string::npos)) {
    char block[4096];
    const std::size_t got = stream.read_some(asio::buffer(block), problem);
    text.append(block, got);
  }
  if (text.size() > 12) answer.http.status = std::atoi(text.c_str() + 9);
  const auto end = text.find("\r\n\r\n");
  answer.http.head = text.substr(0, end);
  if (end != std::string::npos) answer.http.body = text.substr(end + 4);
  return answer;
}

}  // namespace trireme
