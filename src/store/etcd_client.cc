#include "store/etcd_client.h"

#include <charconv>

#include "base/base64.h"
#include "base/error.h"

namespace trireme::store {
namespace {

using nlohmann::json;

constexpr int kPage = 16;  // entries per answer, which bounds its size

/// Returns the field, or null: the gateway omits what is zero, empty or false.
const json* find_in(const json& object, const char* field) {
  if (!object.is_object()) fail<Corrupt>("no object where '{}' should be", field);
  const auto found = object.find(field);
  return found == object.end() ? nullptr : &*found;
}

/// Parses a 64-bit number, which the gateway writes as text.
std::int64_t number_in(const json& object, const char* field) {
  const json* found = find_in(object, field);
  if (found == nullptr) return 0;
  const auto text = found->get<std::string>();
  std::int64_t number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (problem != std::errc() || end != text.data() + text.size()) fail<Corrupt>("'{}' is not a number", field);
  return number;
}

std::string bytes_in(const json& object, const char* field) {
  const json* found = find_in(object, field);
  return found == nullptr ? "" : base64_decode(found->get<std::string>());
}

bool flag_in(const json& object, const char* field) {
  const json* found = find_in(object, field);
  return found != nullptr && found->get<bool>();
}

std::vector<EtcdEntry> entries_in(const json& range) {
  std::vector<EtcdEntry> entries;
  const json* found = find_in(range, "kvs");
  if (found == nullptr) return entries;
  if (!found->is_array()) fail<Corrupt>("'kvs' is not a list");
  for (const json& entry : *found) {
    entries.push_back({.key = bytes_in(entry, "key"),
                       .value = bytes_in(entry, "value"),
                       .create_revision = number_in(entry, "create_revision"),
                       .version = number_in(entry, "version"),
                       .lease = number_in(entry, "lease")});
  }
  return entries;
}

std::optional<EtcdEntry> first_in(const json& range) {
  auto entries = entries_in(range);
  return entries.empty() ? std::nullopt : std::optional(std::move(entries.front()));
}

/// Returns the first key after all that begin with `prefix`; "\0" means to etcd that there is none.
std::string end_of(std::string prefix) {
  while (!prefix.empty() && prefix.back() == '\xff') prefix.pop_back();
  if (prefix.empty()) return std::string(1, '\0');
  ++prefix.back();
  return prefix;
}

}  // namespace

template <typename Decode>
auto EtcdClient::ask(const std::string& path, const json& question, Deadline deadline, const Decode& decode) {
  const EtcdGateway::Answer answer = gateway_.ask(path, question, deadline);
  const auto strange = [&](const char* reason) {
    return Corrupt(fmt::format("{} answers {} with JSON of another shape: {}", answer.member, path, reason));
  };
  try {
    return decode(answer.body);
  } catch (const json::exception& problem) {
    throw strange(problem.what());
  } catch (const Corrupt& problem) {
    throw strange(problem.what());
  }
}

std::optional<EtcdEntry> EtcdClient::get(const std::string& key, Deadline deadline) {
  return ask("/v3/kv/range", {{"key", base64_encode(key)}}, deadline, first_in);
}

std::vector<EtcdEntry> EtcdClient::list(const std::string& prefix, Deadline deadline) {
  std::vector<EtcdEntry> all;
  json question = {{"key", base64_encode(prefix)}, {"range_end", base64_encode(end_of(prefix))}, {"limit", kPage}};
  for (bool more = true; more;) {
    more = ask("/v3/kv/range", question, deadline, [&](const json& range) {
      for (EtcdEntry& entry : entries_in(range)) all.push_back(std::move(entry));
      question["revision"] = std::to_string(number_in(range.at("header"), "revision"));  // one revision for all pages
      return flag_in(range, "more") && !all.empty();
    });
    if (more) question["key"] = base64_encode(all.back().key + '\0');
  }
  return all;
}

EtcdClient::Outcome EtcdClient::run(const EtcdTransaction& transaction, Deadline deadline) {
  const std::string key = base64_encode(transaction.key);
  json compare = json::array(
      {{{"key", key}, {"target", "CREATE"}, {"create_revision", std::to_string(transaction.create_revision)}}});
  if (transaction.version != 0) {
    compare.push_back({{"key", key}, {"target", "VERSION"}, {"version", std::to_string(transaction.version)}});
  }
  json changes = json::array();
  for (const EtcdPut& put : transaction.puts) {
    changes.push_back({{"request_put",
                        {{"key", base64_encode(put.key)},
                         {"value", base64_encode(put.value)},
                         {"lease", std::to_string(put.lease)}}}});
  }
  for (const std::string& removal : transaction.removals) {
    changes.push_back({{"request_delete_range", {{"key", base64_encode(removal)}}}});
  }
  if (transaction.touch_key) {
    changes.push_back({{"request_put", {{"key", key}, {"ignore_value", true}, {"ignore_lease", true}}}});
  }
  const json otherwise = json::array({{{"request_range", {{"key", key}}}}});
  const json question = {{"compare", compare}, {"success", changes}, {"failure", otherwise}};
  return ask("/v3/kv/txn", question, deadline, [](const json& answer) {
    Outcome outcome{.done = flag_in(answer, "succeeded"), .revision = number_in(answer.at("header"), "revision")};
    if (!outcome.done) outcome.found = first_in(answer.at("responses").at(0).at("response_range"));
    return outcome;
  });
}

void EtcdClient::compact(std::int64_t revision, Deadline deadline) {
  try {
    gateway_.ask("/v3/kv/compaction", {{"revision", std::to_string(revision)}}, deadline);
  } catch (const EtcdCompacted&) {  // by another user, or by the same request before
  }
}

EtcdClient::Lease EtcdClient::grant(std::chrono::seconds ttl, Deadline deadline) {
  return ask("/v3/lease/grant", {{"TTL", std::to_string(ttl.count())}}, deadline, [](const json& answer) {
    const Lease lease{.id = number_in(answer, "ID"), .ttl = std::chrono::seconds(number_in(answer, "TTL"))};
    if (lease.id == 0 || lease.ttl <= 0s) fail<Corrupt>("a lease without number or time");
    return lease;
  });
}

std::chrono::seconds EtcdClient::keep_alive(std::int64_t lease, Deadline deadline) {
  return ask("/v3/lease/keepalive", {{"ID", std::to_string(lease)}}, deadline,
             [](const json& answer) { return std::chrono::seconds(number_in(answer.at("result"), "TTL")); });
}

void EtcdClient::revoke(std::int64_t lease, Deadline deadline) {
  try {
    gateway_.ask("/v3/lease/revoke", {{"ID", std::to_string(lease)}}, deadline);
  } catch (const EtcdNotFound&) {  // already gone
  }
}

}  // namespace trireme::store
