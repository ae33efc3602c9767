#include "cluster/master_finder.h"

#include <charconv>
#include <cstdlib>
#include <memory>
#include <string_view>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "store/store.h"

namespace trireme::cluster {

std::function<std::optional<net::Address>()> make_master_finder(const std::string& location) {
  if (location.empty()) return {};
  std::shared_ptr<store::Store> store =
      store::open_store({.location = location, .call_within = std::chrono::seconds(1)});
  return [store, location]() -> std::optional<net::Address> {
    if (!store->leader()) return std::nullopt;
    const auto text = store->get(kAddressKey);
    if (!text) return std::nullopt;
    try {
      return nlohmann::json::parse(*text).get<net::Address>();
    } catch (const nlohmann::json::exception& problem) {
      fail<Corrupt>("the store {} does not hold a master's address under '{}' ({}): has another program written to it?",
                    location, kAddressKey, problem.what());
    }
  };
}

std::chrono::seconds without_master_within(const std::function<const char*(const char* name)>& lookup) {
  constexpr std::chrono::seconds kUsual{600};
  const char* const given = lookup("TRIREME_WITHOUT_MASTER");
  const std::string_view text = given != nullptr ? given : "";
  if (text.empty()) return kUsual;
  std::uint32_t seconds = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (problem != std::errc() || end != text.data() + text.size() || seconds == 0) {
    fail<InvalidArgument>("TRIREME_WITHOUT_MASTER='{}': expected seconds, a whole number from 1 on; {} unless set",
                          text, kUsual.count());
  }
  return std::chrono::seconds(seconds);
}

std::chrono::seconds without_master_within() {
  return without_master_within([](const char* name) -> const char* { return std::getenv(name); });
}

}  // namespace trireme::cluster
