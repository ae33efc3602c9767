#include <memory>

#include "trireme/base/error.h"
#include "trireme/base/file.h"
#include "trireme/cli/commands.h"
#include "trireme/cluster/protocol.h"
#include "trireme/net/connection.h"
#include "trireme/observe/run_folder.h"

namespace trireme::cli {
namespace {

struct ScaleFlags {
  std::string run;
  std::uint32_t workers = 0;
};

int scale(const ScaleFlags& flags) {
  const auto folder = observe::RunFolder::open(flags.run);
  const auto announce = folder.path() / "master.json";
  const auto secret_file = folder.path() / "secret";
  if (!std::filesystem::exists(announce) || !std::filesystem::exists(secret_file)) {
    fail<InvalidArgument>("{} is not the folder of a run that is going on", flags.run);
  }
  std::string secret = read_file(secret_file);
  secret.erase(secret.find_last_not_of("\n") + 1);
  net::Loop loop("scale", 1);
  const auto master =
      net::Connection::open(loop, nlohmann::json::parse(read_file(announce)).get<net::Address>(),
                            {.secret = secret, .peer_name = "the master", .deadline = Deadline::in(5s)});
  master->call<cluster::Done>(cluster::kScale, 0, cluster::ScaleRequest{flags.workers}, Deadline::in(5s),
                              "the number of workers");
  fmt::print("{} is to have {} worker{} from now on\n", flags.run, flags.workers, flags.workers == 1 ? "" : "s");
  return 0;
}

}  // namespace

void add_scale(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("scale", "change the number of workers of a run that is going on");
  auto flags = std::make_shared<ScaleFlags>();
  command->add_option("run", flags->run, "its folder")->required();
  command->add_option("workers", flags->workers, "how many there should be; at most one per lane computes")
      ->required()
      ->check(CLI::PositiveNumber);
  command->footer("Example: trireme scale runs/first 4");
  command->callback([flags, &action] { action = [flags] { return scale(*flags); }; });
}

}  // namespace trireme::cli
