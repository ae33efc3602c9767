#include "trireme/cluster/etcd_gateway.h"

#include <thread>

#include <fmt/ranges.h>

namespace trireme::cluster {
namespace {

// Sixteen of the largest entries, which etcd limits to 1.5 MiB, in base64: a page of a list (etcd_client.h).
constexpr std::size_t kLargestAnswer = 36UL * 1024 * 1024;
constexpr auto kPause = 50ms;  // between two rounds over all members

// Codes of gRPC.
constexpr int kInvalidArgument = 3;
constexpr int kDeadlineExceeded = 4;
constexpr int kNotFound = 5;
constexpr int kUnavailable = 14;

std::string name_of(const net::HttpClient& member) { return "http://" + member.server().text(); }

std::string beginning_of(const std::string& body) {
  std::string beginning;
  for (const char c : body.substr(0, 200)) beginning += c >= ' ' && c < 0x7f ? c : '?';
  return beginning;
}

}  // namespace

EtcdGateway::EtcdGateway(const std::vector<net::Address>& members) {
  for (const net::Address& member : members) members_.emplace_back(member);
  TRIREME_CHECK(!members_.empty());
}

EtcdGateway::Answer EtcdGateway::ask(const std::string& path, const nlohmann::json& question, Deadline deadline) {
  const std::lock_guard lock(mutex_);
  const auto share = deadline.allowed() / members_.size();
  net::HttpPost post{.path = path, .body = question.dump(), .largest_answer = kLargestAnswer};
  std::vector<std::string> problems(members_.size());
  for (;;) {
    bool silent = false;
    for (std::size_t i = 0; i < members_.size(); ++i) {
      net::HttpClient& member = members_[current_];
      post.deadline = Deadline::in(std::min<Deadline::Clock::duration>(share, deadline.left()));
      Attempt result = attempt(member, post);
      if (result.answered) return {.body = std::move(result.body), .member = name_of(member)};
      problems[current_] = std::move(result.problem);
      silent = silent || result.silent;
      current_ = (current_ + 1) % members_.size();
      if (deadline.passed()) give_up(path, deadline, silent, problems);
    }
    if (deadline.left() <= kPause) give_up(path, deadline, silent, problems);
    std::this_thread::sleep_for(kPause);
  }
}

EtcdGateway::Attempt EtcdGateway::attempt(net::HttpClient& member, const net::HttpPost& post) {
  net::HttpAnswer answer;
  try {
    answer = member.post(post);
  } catch (const Timeout& problem) {
    return {.silent = true, .problem = problem.what()};
  } catch (const PeerLost& problem) {
    return {.problem = problem.what()};
  }
  nlohmann::json body = nlohmann::json::parse(answer.body, nullptr, /*allow_exceptions=*/false);
  const bool refused = answer.status != 200;
  if (!body.is_object() && refused) {
    fail<Corrupt>("{} answers {} with HTTP status {} ('{}'): is it etcd 3.4 or newer?", name_of(member), post.path,
                  answer.status, beginning_of(answer.body));
  }
  if (!body.is_object()) {
    fail<Corrupt>("{} answers {} with something that is not JSON ('{}'): is it etcd?", name_of(member), post.path,
                  beginning_of(answer.body));
  }
  // A stream (keepalive) has answered "200 OK" before it comes to its error.
  const nlohmann::json& error = body.contains("error") && body["error"].is_object() ? body["error"] : body;
  if (!refused && !body.contains("error")) return {.answered = true, .body = std::move(body)};
  const int code = error.contains("code") && error["code"].is_number() ? error["code"].get<int>() : 0;
  const std::string reason =
      error.contains("message") && error["message"].is_string() ? error["message"].get<std::string>() : body.dump();
  const std::string problem = fmt::format("{} refuses {}: {}", name_of(member), post.path, beginning_of(reason));
  // Not now, or not here: there is no leader yet, or not within reach of this member.
  if (code == kUnavailable || code == kDeadlineExceeded) return {.silent = true, .problem = problem};
  if (code == kInvalidArgument) throw InvalidArgument(problem);
  if (code == kNotFound) throw EtcdNotFound(problem);
  throw IoError(problem + "; see the log of that etcd");
}

void EtcdGateway::give_up(const std::string& path, Deadline deadline, bool silent,
                          const std::vector<std::string>& problems) {
  std::vector<std::string> said;
  for (const std::string& problem : problems) {
    if (!problem.empty()) said.push_back(problem);
  }
  const std::string message = fmt::format(
      "etcd did not carry out {} within {} ms: {}. Most of its members have to run: see `etcdctl endpoint health`",
      path, deadline.allowed().count(), fmt::join(said, "; "));
  if (silent) throw Timeout(message);
  throw IoError(message);
}

}  // namespace trireme::cluster
