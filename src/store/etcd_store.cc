#include "store/etcd_store.h"

#include <algorithm>
#include <regex>
#include <sstream>
#include <thread>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/suggest.h"
#include "store/etcd_client.h"
#include "store/etcd_leadership.h"

namespace trireme::store {
namespace {

constexpr auto kLookEvery = 100ms;  // how often a candidate checks whether there is a leader

class EtcdStore : public Store {
 public:
  EtcdStore(EtcdAccess access, const std::string& job, std::chrono::milliseconds call_within)
      : access_(std::move(access)),
        keys_{.leader = fmt::format("/trireme/{}/leader", job), .data = fmt::format("/trireme/{}/data/", job)},
        call_within_(call_within),
        client_(access_) {}

  std::optional<std::string> get(const std::string& key) override {
    auto entry = client_.get(keys_.data + key, Deadline::in(call_within_));
    return entry ? std::optional(std::move(entry->value)) : std::nullopt;
  }

  std::map<std::string, std::string> list(const std::string& prefix) override {
    std::map<std::string, std::string> found;
    for (EtcdEntry& entry : client_.list(keys_.data + prefix, Deadline::in(call_within_))) {
      found.emplace(entry.key.substr(keys_.data.size()), std::move(entry.value));
    }
    return found;
  }

  std::optional<Leader> leader() override { return read_leader(Deadline::in(call_within_)); }

  std::unique_ptr<Leadership> campaign(const Campaign& campaign) override {
    bool troubled = false;
    for (;;) {
      try {
        const Deadline call = Deadline::in(std::clamp<Deadline::Clock::duration>(
            campaign.deadline.left(), std::min<std::chrono::milliseconds>(call_within_, 1s), call_within_));
        if (!client_.get(keys_.leader, call)) {
          if (auto won = try_to_win(campaign, call)) return won;
        }
        troubled = false;
      } catch (const Error& problem) {
        const bool may_pass = dynamic_cast<const Timeout*>(&problem) || dynamic_cast<const IoError*>(&problem);
        if (!may_pass || campaign.deadline.passed()) throw;
        if (!std::exchange(troubled, true))
          log_warn("campaign_failed", "cannot campaign for leadership yet", {{"reason", problem.what()}});
      }
      if (campaign.deadline.passed()) return nullptr;
      std::this_thread::sleep_for(std::min<Deadline::Clock::duration>(campaign.deadline.left(), kLookEvery));
    }
  }

 private:
  std::optional<Leader> read_leader(Deadline deadline) {
    const auto entry = client_.get(keys_.leader, deadline);
    if (!entry) return std::nullopt;
    const auto text = nlohmann::json::parse(entry->value, nullptr, /*allow_exceptions=*/false);
    if (!text.is_object() || !text.contains("name") || !text.contains("value") || !text["name"].is_string() ||
        !text["value"].is_string()) {
      fail<Corrupt>("etcd holds a leader under {} that Trireme has not written: remove it, or name another job",
                    keys_.leader);
    }
    return Leader{.name = text["name"].get<std::string>(),
                  .value = text["value"].get<std::string>(),
                  .term = static_cast<std::uint64_t>(entry->create_revision)};
  }

  /// Puts the leader's key if it does not exist.
  std::unique_ptr<Leadership> try_to_win(const Campaign& campaign, Deadline deadline) {
    const auto asked = Deadline::Clock::now();
    const auto lease = client_.grant(std::max(1s, std::chrono::ceil<std::chrono::seconds>(campaign.ttl)), deadline);
    const nlohmann::json about = {{"name", campaign.candidate.name}, {"value", campaign.candidate.value}};
    const std::string text = about.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    const auto outcome =
        client_.run({.key = keys_.leader, .puts = {{.key = keys_.leader, .value = text, .lease = lease.id}}}, deadline);
    const bool done_before = outcome.found && outcome.found->lease == lease.id;  // the request was sent twice
    if (!outcome.done && !done_before) {
      client_.revoke(lease.id, deadline);
      return nullptr;
    }
    const auto revision = outcome.done ? outcome.revision : outcome.found->create_revision;
    return std::make_unique<EtcdLeadership>(
        access_, keys_, call_within_,
        EtcdLeadership::Won{
            .lease = lease, .asked = asked, .create_revision = revision, .kept_commits = campaign.kept_commits});
  }

  const EtcdAccess access_;
  const EtcdKeys keys_;
  const std::chrono::milliseconds call_within_;
  EtcdClient client_;
};

/// Parses one member; the scheme before it, if there is one, must be that of the whole location.
net::Address parse_member(std::string text, bool encrypted) {
  if (const auto scheme = text.find("://"); scheme != std::string::npos) {
    if (text.substr(0, scheme) != (encrypted ? "https" : "http")) {
      fail<InvalidArgument>("'{}': use etcds:// for members over TLS (https), etcd:// for others (http)", text);
    }
    text = text.substr(scheme + 3);
  }
  const auto colon = text.rfind(':');
  const bool has_port = colon != std::string::npos && text.find(']', colon) == std::string::npos;
  return net::parse_address(has_port ? text : text + ":2379");
}

void parse_option(EtcdLocation& location, const std::string& option) {
  const auto equals = option.find('=');
  const std::string name = option.substr(0, equals);
  const std::string value = equals == std::string::npos ? "" : option.substr(equals + 1);
  const bool for_tls = name == "ca" || name == "cert" || name == "key";
  if (!for_tls && name != "auth") {
    fail<InvalidArgument>("'{}' is no option of a store in etcd{}: use ca, cert, key or auth", name,
                          did_you_mean(name, {"ca", "cert", "key", "auth"}));
  }
  if (value.empty()) fail<InvalidArgument>("the option '{}' of a store in etcd names no file", name);
  if (for_tls && !location.tls)
    fail<InvalidArgument>("the option '{}' is for TLS: use etcds:// instead of etcd://", name);
  if (name == "ca") location.tls->ca_file = value;
  if (name == "cert") location.tls->certificate_file = value;
  if (name == "key") location.tls->key_file = value;
  if (name == "auth") location.auth_file = value;
}

void parse_options(EtcdLocation& location, const std::string& text) {
  std::istringstream options(text);
  for (std::string option; std::getline(options, option, '&');) parse_option(location, option);
  if (location.tls && location.tls->certificate_file.empty() != location.tls->key_file.empty()) {
    fail<InvalidArgument>("a client certificate for etcd needs both files: cert=FILE&key=FILE");
  }
}

void parse_members(EtcdLocation& location, const std::string& text) {
  std::istringstream members(text);
  for (std::string member; std::getline(members, member, ',');) {
    const auto host = member.find("://") == std::string::npos ? 0 : member.find("://") + 3;
    const auto slash = member.find('/', host);
    if (slash != std::string::npos && members.eof()) {  // the job follows the last member
      location.job = member.substr(slash + 1);
      member.resize(slash);
    }
    location.members.push_back(parse_member(member, location.tls.has_value()));
  }
}

EtcdAccess access_of(const EtcdLocation& location) {
  EtcdAccess access{.members = location.members, .tls = location.tls};
  if (location.auth_file.empty()) return access;
  const std::string content = read_file(location.auth_file);
  const std::string line = content.substr(0, content.find_first_of("\r\n"));
  const auto colon = line.find(':');
  if (colon == std::string::npos || colon == 0) {
    fail<InvalidArgument>("{} should hold user:password for etcd in its first line", location.auth_file);
  }
  access.user = line.substr(0, colon);
  access.password = line.substr(colon + 1);
  return access;
}

}  // namespace

EtcdLocation parse_etcd_location(const std::string& text) {
  EtcdLocation location;
  const auto begin = text.find("://") + 3;
  const auto question = text.find('?');
  if (text.starts_with("etcds://")) location.tls.emplace();
  parse_members(location, text.substr(begin, question == std::string::npos ? question : question - begin));
  if (location.members.empty()) fail<InvalidArgument>("{} names no member: use etcd://host:2379,host:2379", text);
  if (!std::regex_match(location.job, std::regex("[A-Za-z0-9._-]+"))) {
    fail<InvalidArgument>("'{}' cannot name a job in etcd: use letters, digits, '.', '_' and '-'", location.job);
  }
  if (question != std::string::npos) parse_options(location, text.substr(question + 1));
  return location;
}

std::string etcd_risk(const EtcdLocation& location) {
  const bool here =
      std::ranges::all_of(location.members, [](const net::Address& m) { return net::is_loopback(m.host); });
  if (here) return "";
  if (!location.tls) {
    return location.auth_file.empty()
               ? "it is not encrypted and asks nobody who they are: who reaches it may change the job's state"
               : "it is not encrypted: who sees its network sees the password, too";
  }
  const bool known = !location.auth_file.empty() || !location.tls->certificate_file.empty();
  return known ? "" : "it does not ask who we are: who reaches it may change the job's state";
}

std::unique_ptr<Store> open_etcd_store(const EtcdLocation& location, std::chrono::milliseconds call_within) {
  if (const std::string risk = etcd_risk(location); !risk.empty()) {
    log_warn("store_unprotected", "the store in etcd is not protected; use etcds:// with a user or a certificate",
             {{"reason", risk}});
  }
  return std::make_unique<EtcdStore>(access_of(location), location.job, call_within);
}

}  // namespace trireme::store
