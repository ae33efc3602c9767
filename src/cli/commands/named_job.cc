#include "cli/commands/named_job.h"

#include <cstdlib>

#include "base/error.h"
#include "cluster/environment.h"
#include "net/address.h"
#include "observe/run_folder.h"

namespace trireme::cli {

void declare_job(CLI::App& command, NamedJob& job) {
  auto* run = command.add_option("run", job.run, "its folder");
  auto* master =
      command.add_option("--master", job.master, "instead: where its master is, host:port, if you placed it yourself");
  master->excludes(run);
  command.add_option("--secret-file", job.secret_file, "with --master: the job's secret; or TRIREME_SECRET")
      ->needs(master);
}

std::unique_ptr<launch::RunningJob> find_job(const NamedJob& job) {
  if (job.master.empty()) {
    if (job.run.empty()) fail<InvalidArgument>("which job? give its folder, or --master host:port");
    return std::make_unique<launch::RunningJob>(observe::RunFolder::open(job.run).path());
  }
  const std::string secret = cluster::read_secret([&](const char* name) -> const char* {
    if (job.secret_file.empty()) return std::getenv(name);
    return std::string_view(name) == "TRIREME_SECRET_FILE" ? job.secret_file.c_str() : nullptr;
  });
  if (secret.empty()) {
    fail<InvalidArgument>("a master answers only who knows its job's secret: give --secret-file, or TRIREME_SECRET");
  }
  return std::make_unique<launch::RunningJob>(net::parse_address(job.master), secret);
}

}  // namespace trireme::cli
