#include "cluster/master_finder.h"

#include <memory>

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

}  // namespace trireme::cluster
