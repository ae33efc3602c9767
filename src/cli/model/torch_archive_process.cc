#include "cli/model/torch_archive_process.h"

#include "base/error.h"
#include "launch/companion.h"
#include "launch/supervisor.h"

namespace trireme::cli {

int run_torch_archive(const std::vector<std::string>& arguments, const std::string& file,
                      std::chrono::milliseconds time, const std::filesystem::path& log) {
  std::vector<std::string> argv{launch::companion_program("trireme-torch-archive")};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  launch::Supervisor supervisor;
  supervisor.start({.name = "trireme-torch-archive", .argv = std::move(argv), .log = log});
  const Deadline deadline = Deadline::in(time);
  while (supervisor.alive() > 0) {
    for (const launch::Exit& exit : supervisor.wait(deadline)) {
      if (exit.signal != 0) fail<Corrupt>("{}: {} {}; is the file damaged?", file, exit.name, exit.how);
    }
    if (supervisor.alive() > 0 && deadline.passed()) {  // ended with the supervisor
      fail<Timeout>(
          "{}: not finished after {} s, and given up: is it damaged, or is the disk so slow? See --time-limit", file,
          static_cast<double>(time.count()) / 1000);
    }
  }
  return supervisor.worst_status();
}

}  // namespace trireme::cli
