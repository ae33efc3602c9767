#pragma once

#include <memory>
#include <span>
#include <string>

#include "dash/dashboard.h"

namespace trireme::master {
class Master;
}

namespace trireme::cli {

/// The files of the page; empty if this program was built without it.
std::span<const dash::WebFile> web_files();

/// The page of a run that goes on, served by its master.
class RunPage {
 public:
  /// Serves `run` on `listen`, "host:port", and writes where, and the token, to page.json in its folder, readable by
  /// its owner only. After a master that died the address and the token stay the same, if the port is still free.
  /// `certificate`: see page_address. Throws IoError, InvalidArgument. `master` outlives it.
  RunPage(const std::string& run, const std::string& listen, const std::string& certificate, master::Master& master);
  ~RunPage();

  std::string url() const;

 private:
  std::unique_ptr<dash::Dashboard> dashboard_;
  std::unique_ptr<net::HttpServer> server_;
};

}  // namespace trireme::cli
