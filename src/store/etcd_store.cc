#include "store/etcd_store.h"

#include <regex>
#include <sstream>
#include <thread>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/log.h"
#include "store/etcd_client.h"
#include "store/etcd_leadership.h"

namespace trireme::store {
namespace {

constexpr auto kLookEvery = 100ms;  // how often a candidate checks whether there is a leader

class EtcdStore : public Store {
 public:
  EtcdStore(const EtcdLocation& location, std::chrono::milliseconds call_within)
      : members_(location.members),
        keys_{.leader = fmt::format("/trireme/{}/leader", location.job),
              .data = fmt::format("/trireme/{}/data/", location.job)},
        call_within_(call_within),
        client_(members_) {}

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
        members_, keys_, call_within_,
        EtcdLeadership::Won{
            .lease = lease, .asked = asked, .create_revision = revision, .kept_commits = campaign.kept_commits});
  }

  const std::vector<net::Address> members_;
  const EtcdKeys keys_;
  const std::chrono::milliseconds call_within_;
  EtcdClient client_;
};

net::Address parse_member(std::string text) {
  if (text.starts_with("https://")) {
    fail<InvalidArgument>(
        "'{}': TLS to etcd is not supported; let etcd also listen at an http:// address of a trusted network", text);
  }
  if (text.starts_with("http://")) text = text.substr(7);
  const auto colon = text.rfind(':');
  const bool has_port = colon != std::string::npos && text.find(']', colon) == std::string::npos;
  return net::parse_address(has_port ? text : text + ":2379");
}

}  // namespace

EtcdLocation parse_etcd_location(const std::string& text) {
  EtcdLocation location;
  std::istringstream members(text);
  for (std::string member; std::getline(members, member, ',');) {
    const auto host = member.find("://") == std::string::npos ? 0 : member.find("://") + 3;
    const auto slash = member.find('/', host);
    if (slash != std::string::npos && members.eof()) {  // the job follows the last member
      location.job = member.substr(slash + 1);
      member.resize(slash);
    }
    location.members.push_back(parse_member(member));
  }
  if (location.members.empty()) fail<InvalidArgument>("etcd:// names no member: use etcd://host:2379,host:2379");
  if (!std::regex_match(location.job, std::regex("[A-Za-z0-9._-]+"))) {
    fail<InvalidArgument>("'{}' cannot name a job in etcd: use letters, digits, '.', '_' and '-'", location.job);
  }
  return location;
}

std::unique_ptr<Store> open_etcd_store(const EtcdLocation& location, std::chrono::milliseconds call_within) {
  return std::make_unique<EtcdStore>(location, call_within);
}

}  // namespace trireme::store
