#include "cli/start/page_address.h"

#include <unistd.h>

#include <array>

#include "base/error.h"
#include "base/file.h"
#include "launch/private_file.h"

namespace trireme::cli {
namespace {

std::string own_host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 && name[0] != '\0' ? name.data() : "localhost";
}

bool is_any(const std::string& host) { return host == "0.0.0.0" || host == "::"; }

net::Certificate read_pem(const std::filesystem::path& file) {
  std::string text = read_file(file);
  return {.chain = text, .key = text};  // each reader finds its part
}

net::Certificate find_certificate(const std::string& given, const std::filesystem::path& keep,
                                  const std::string& host) {
  if (!given.empty()) return read_pem(given);
  if (!keep.empty() && std::filesystem::exists(keep)) return read_pem(keep);
  std::vector<std::string> names{own_host_name(), "localhost", "127.0.0.1"};
  if (!is_any(host)) names.push_back(host);
  net::Certificate made = net::make_certificate(names);
  if (!keep.empty()) launch::write_private_file(keep, made.chain + made.key);
  return made;
}

}  // namespace

PageAddress page_address(const std::string& listen, const std::string& certificate, const std::filesystem::path& keep) {
  const net::Address address = net::parse_address(listen);
  const bool here = address.host == "localhost" || net::is_loopback(address.host);
  PageAddress page{.server = {.name = "page", .host = address.host, .port = address.port}, .private_page = !here};
  if (here && certificate.empty()) return page;
  page.server.tls = find_certificate(certificate, keep, address.host);
  page.fingerprint = net::fingerprint(*page.server.tls);
  if (is_any(address.host)) page.server.shown_host = own_host_name();
  return page;
}

}  // namespace trireme::cli
