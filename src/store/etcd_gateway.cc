#include "store/etcd_gateway.h"

#include <thread>

namespace trireme::store {
namespace {

// Sixteen entries of the largest size, which etcd limits to 1.5 MiB, in base64: a page of a list (etcd_client.h).
constexpr std::size_t kLargestAnswer = 36UL * 1024 * 1024;
constexpr auto kPause = 50ms;  // between two rounds over all members; too short to try anything else

// gRPC status codes.
constexpr int kInvalidArgument = 3;
constexpr int kDeadlineExceeded = 4;
constexpr int kNotFound = 5;
constexpr int kOutOfRange = 11;
constexpr int kUnavailable = 14;

constexpr int kUnauthenticated = 16;

/// Whether etcd refuses because it wants another token: it forgot ours, or its users have changed since.
bool wants_new_token(int code, const std::string& reason) {
  return code == kUnauthenticated || reason.find("auth store is old") != std::string::npos;
}

std::string beginning_of(const std::string& body) {
  std::string beginning;
  for (const char c : body.substr(0, 200)) beginning += c >= ' ' && c < 0x7f ? c : '?';
  return beginning;
}

}  // namespace

EtcdGateway::EtcdGateway(const EtcdAccess& access) : user_(access.user), password_(access.password) {
  for (const net::Address& member : access.members) members_.emplace_back(member, access.tls);
  TRIREME_CHECK(!members_.empty());
}

EtcdGateway::Turn::Turn(EtcdGateway& gateway, const std::string& path, Deadline deadline) : gateway_(gateway) {
  const MutexLock lock(gateway_.mutex_);
  if (!gateway_.free_.wait(gateway_.mutex_, deadline,
                           [&]() TRIREME_REQUIRES(gateway_.mutex_) { return !gateway_.taken_; })) {
    fail<Timeout>("{} did not get its turn within {} ms: etcd takes long over other questions", path,
                  deadline.allowed().count());
  }
  gateway_.taken_ = true;
}

EtcdGateway::Turn::~Turn() {
  const MutexLock lock(gateway_.mutex_);
  gateway_.taken_ = false;
  gateway_.free_.notify_one();
}

EtcdGateway::Answer EtcdGateway::ask(const std::string& path, const nlohmann::json& question, Deadline deadline) {
  const Turn turn(*this, path, deadline);
  const Deadline::Clock::duration share = deadline.allowed() / members_.size();
  net::HttpPost post{.path = path, .body = question.dump(), .largest_answer = kLargestAnswer};
  std::vector<Attempt> attempts(members_.size());  // the last informative one at each member
  for (;;) {
    for (std::size_t i = 0; i < members_.size(); ++i) {
      const bool has_its_share = share <= deadline.left();
      post.deadline = has_its_share ? Deadline::in(share) : deadline;
      Attempt now = user_.empty() ? attempt(members_[current_], post) : attempt_as_user(members_[current_], post);
      if (now.answered) return {.body = std::move(now.body), .member = members_[current_].url()};
      // Silence in the little time that was left says less than what happened before.
      if (has_its_share || !now.silent || attempts[current_].problem.empty()) attempts[current_] = std::move(now);
      current_ = (current_ + 1) % members_.size();
      if (deadline.left() <= kPause) give_up(path, deadline, attempts);
    }
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
    fail<Corrupt>("{} answers {} with HTTP status {} ('{}'): is it etcd 3.4 or newer?", member.url(), post.path,
                  answer.status, beginning_of(answer.body));
  }
  if (!body.is_object()) {
    fail<Corrupt>("{} answers {} with something that is not JSON ('{}'): is it etcd?", member.url(), post.path,
                  beginning_of(answer.body));
  }
  // A stream (keepalive) has already answered "200 OK" when its error comes.
  const nlohmann::json& error = body.contains("error") && body["error"].is_object() ? body["error"] : body;
  if (!refused && !body.contains("error")) return {.answered = true, .body = std::move(body)};
  const int code = error.contains("code") && error["code"].is_number() ? error["code"].get<int>() : 0;
  const std::string reason =
      error.contains("message") && error["message"].is_string() ? error["message"].get<std::string>() : body.dump();
  const std::string problem = fmt::format("{} refuses {}: {}", member.url(), post.path, beginning_of(reason));
  // Temporary, or only at this member: no leader has been elected yet, or this member cannot reach it.
  if (code == kUnavailable || code == kDeadlineExceeded) return {.silent = true, .problem = problem};
  if (wants_new_token(code, reason)) return {.logged_out = true, .problem = problem};
  if (reason.find("user name is empty") != std::string::npos) {
    fail<Unauthenticated>(
        "{}: it wants to know who asks; write user:password into a file, and ?auth=FILE behind the store", problem);
  }
  if (code == kInvalidArgument) throw InvalidArgument(problem);
  if (code == kNotFound) throw EtcdNotFound(problem);
  if (code == kOutOfRange) throw EtcdCompacted(problem);
  throw IoError(problem + "; see the log of that etcd");
}

EtcdGateway::Attempt EtcdGateway::attempt_as_user(net::HttpClient& member, net::HttpPost post) {
  for (bool again = false;; again = true) {
    if (token_.empty()) {
      const nlohmann::json login = {{"name", user_}, {"password", password_}};
      Attempt entered =
          attempt(member, {.path = "/v3/auth/authenticate", .body = login.dump(), .deadline = post.deadline});
      if (!entered.answered) return entered;
      if (!entered.body.contains("token") || !entered.body["token"].is_string()) {
        fail<Corrupt>("{} gives no token to user '{}'", member.url(), user_);
      }
      token_ = entered.body["token"].get<std::string>();
    }
    post.authorization = token_;
    Attempt now = attempt(member, post);
    if (!now.logged_out || again) return now;
    token_.clear();
  }
}

void EtcdGateway::give_up(const std::string& path, Deadline deadline, const std::vector<Attempt>& attempts) {
  std::string problems;
  bool silent = false;
  for (const Attempt& attempt : attempts) {
    if (attempt.problem.empty()) continue;  // was not asked
    problems += (problems.empty() ? "" : "; ") + attempt.problem;
    silent = silent || attempt.silent;
  }
  const std::string message = fmt::format(
      "etcd did not carry out {} within {} ms: {}. Most of its members have to run: see `etcdctl endpoint health`",
      path, deadline.allowed().count(), problems);
  if (silent) throw Timeout(message);
  throw IoError(message);
}

}  // namespace trireme::store
