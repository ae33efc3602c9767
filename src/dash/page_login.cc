#include "dash/page_login.h"

#include <fmt/format.h>
#include <openssl/crypto.h>

#include "base/error.h"
#include "base/hash.h"

namespace trireme::dash {
namespace {

constexpr const char* kNeedsToken = "this needs the token: open the link that trireme printed, or see 'trireme status'";

constexpr const char* kLoginPage =
    "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" "
    "content=\"width=device-width\"><title>Trireme</title><h1>Trireme</h1><p id=\"why\">This page needs its token: "
    "open "
    "the link that trireme printed, or that <code>trireme status</code> prints.</p><form id=\"form\"><label>Token "
    "<input "
    "id=\"token\" type=\"password\" autocomplete=\"off\"></label> <button>Open</button></form><script "
    "src=\"/login.js\"></script></html>";

// The token stays behind the #, for the page itself.
constexpr const char* kLoginScript =
    "const why = document.getElementById('why');\n"
    "async function login(token) {\n"
    "  sessionStorage.setItem('trireme-login', token);\n"
    "  const reply = await fetch('/api/login', { method: 'POST', headers: { Authorization: 'Bearer ' + token } });\n"
    "  if (reply.ok) { location.hash = 'token=' + token; location.reload(); }\n"
    "  else why.textContent = 'This is not the token of this page.';\n"
    "}\n"
    "const given = /(?:^#|&)token=([0-9a-f]+)/.exec(location.hash);\n"
    "if (given && sessionStorage.getItem('trireme-login') !== given[1]) void login(given[1]);\n"
    "else if (given) why.textContent = 'This browser does not keep the cookie that it gets for the token.';\n"
    "document.getElementById('form').addEventListener('submit', (event) => {\n"
    "  event.preventDefault();\n"
    "  void login(document.getElementById('token').value.trim());\n"
    "});\n";

bool same_text(const std::string& one, const std::string& other) {
  return one.size() == other.size() && ::CRYPTO_memcmp(one.data(), other.data(), one.size()) == 0;
}

std::string pass_for(const std::string& token) {
  Sha256 hash;
  hash.add(as_bytes("pass to read the page of a run: " + token));
  return hash.hex();
}

}  // namespace

PageLogin::PageLogin(std::string token, bool private_page)
    : token_(std::move(token)), pass_(pass_for(token_)), private_(private_page) {}

bool PageLogin::has_token(const net::HttpRequest& request) const { return same_text(request.token, token_); }

bool PageLogin::may_read(const net::HttpRequest& request) const {
  return !private_ || has_token(request) || same_text(request.pass, pass_);
}

void PageLogin::check_read(const net::HttpRequest& request) const {
  if (!may_read(request)) fail<Unauthenticated>("{}", kNeedsToken);
}

void PageLogin::check_action(const net::HttpRequest& request) const {
  if (!has_token(request)) fail<Unauthenticated>("{}", kNeedsToken);
}

std::optional<net::HttpReply> PageLogin::before(const net::HttpRequest& request) const {
  if (!private_) return std::nullopt;
  if (request.path == "/login.js") return net::HttpReply{.type = "text/javascript", .body = kLoginScript};
  if (request.path == "/api/login") {
    check_action(request);
    net::HttpReply reply{.body = "{\"done\": \"welcome\"}\n"};
    reply.headers.emplace_back(
        "Set-Cookie", fmt::format("{}={}; Path=/; Secure; HttpOnly; SameSite=Strict", net::kPassCookie, pass_));
    return reply;
  }
  if (may_read(request)) return std::nullopt;
  if (request.path == "/") return net::HttpReply{.status = 401, .type = "text/html; charset=utf-8", .body = kLoginPage};
  fail<Unauthenticated>("{}", kNeedsToken);
}

}  // namespace trireme::dash
