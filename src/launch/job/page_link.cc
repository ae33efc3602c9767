#include "launch/job/page_link.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"

namespace trireme::launch {

std::string page_link(const observe::RunFolder& run) {
  if (!std::filesystem::exists(run.page())) return "";
  try {
    const auto page = nlohmann::json::parse(read_file(run.page()), nullptr, /*allow_exceptions=*/false);
    if (!page.is_object()) return "";
    // What follows the # stays in the browser: no server sees the token in an address.
    const std::string fingerprint = page.value("fingerprint", "");
    return page.value("url", "") + "#token=" + page.value("token", "") +
           (fingerprint.empty() ? "" : "\n      its certificate, SHA-256: " + fingerprint);
  } catch (const Error&) {  // of another user, or just gone
    return "";
  }
}

}  // namespace trireme::launch
