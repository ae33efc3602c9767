#include "cli/start/run_page.h"

#include <unistd.h>

#include "trireme/version.h"

#include "base/error.h"
#include "base/file.h"
#include "base/random.h"
#include "cli/start/page_address.h"
#include "launch/private_file.h"
#include "master/master.h"
#include "observe/run_folder.h"

namespace trireme::cli {
namespace {

/// What the master before this one wrote.
struct PageBefore {
  std::uint16_t port = 0;
  std::string token;
};

PageBefore read_before(const std::filesystem::path& file) {
  PageBefore before;
  if (!std::filesystem::exists(file)) return before;
  const auto page = nlohmann::json::parse(read_file(file), nullptr, /*allow_exceptions=*/false);
  if (!page.is_object()) return before;
  before.port = page.value("port", std::uint16_t{0});
  before.token = page.value("token", "");
  return before;
}

}  // namespace

RunPage::RunPage(const std::string& run, const std::string& listen, const std::string& certificate,
                 master::Master& master) {
  const auto folder = observe::RunFolder::open(run);
  const PageBefore before = read_before(folder.page());
  const std::string token = before.token.empty() ? random_hex(16) : before.token;
  PageAddress address = page_address(listen, certificate, folder.page_certificate());
  address.server.port_before = before.port;
  dashboard_ = std::make_unique<dash::Dashboard>(dash::DashboardOptions{
      .runs = run,
      .token = token,
      .private_page = address.private_page,
      .version = TRIREME_VERSION,
      .page = web_files(),
      .status = [&master](const auto&) { return std::optional(master.status()); },
      .act =
          [&master](const auto&, const dash::RunAction& action) {
            using Kind = dash::RunAction::Kind;
            if (action.kind == Kind::kStop) return master.stop("asked by the page");
            if (action.kind == Kind::kCheckpoint) return master.checkpoint("asked by the page");
            master.scale(action.scale);
          },
      .record = [&master](const auto&, Step steps) { return master.record(steps); },
      .recorded = [&master](const auto&, std::uint64_t request) { return master.recorded(request); }});
  server_ = std::make_unique<net::HttpServer>(address.server, *dashboard_);
  nlohmann::json page{{"url", server_->url()}, {"port", server_->port()}, {"token", token}, {"pid", ::getpid()}};
  if (!address.fingerprint.empty()) page["fingerprint"] = address.fingerprint;
  launch::write_private_file(folder.page(), page.dump() + "\n");
}

RunPage::~RunPage() = default;

std::string RunPage::url() const { return server_->url(); }

}  // namespace trireme::cli
