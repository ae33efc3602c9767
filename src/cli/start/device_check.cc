#include "cli/start/device_check.h"

#include "base/error.h"
#include "base/file.h"
#include "cli/model/model_use.h"
#include "launch/supervisor.h"

namespace trireme::cli {
namespace {

constexpr auto kTime = 60s;  // LibTorch with CUDA is loaded from disk, and the driver starts

/// What the worker said, without the name of its program and what LibTorch may have said before.
std::string complaint(const std::string& log) {
  const auto from = log.find("--device");
  const auto to = log.find('\n', from);
  if (log.empty()) return "the program that would compute on the device ended without a word";
  return from == std::string::npos ? log : log.substr(from, to - from);
}

}  // namespace

void check_device_here(const std::string& device, const WorkerProgram& program) {
  if (device == "cpu") return;
  const JobFolder folder;
  std::filesystem::create_directories(folder.path());
  const std::filesystem::path log = folder.path() / "device.log";
  launch::Supervisor supervisor;
  supervisor.start({.name = "worker", .argv = worker_words(program, {"check-device", device}), .log = log});
  const Deadline deadline = Deadline::in(kTime);
  while (supervisor.alive() > 0 && !deadline.passed()) supervisor.wait(deadline);
  if (supervisor.alive() > 0) {
    fail<Timeout>("--device {}: the driver did not answer within {} s: does nvidia-smi?", device, kTime.count());
  }
  if (supervisor.worst_status() != 0) fail<InvalidArgument>("{}", complaint(read_file(log.string())));
}

}  // namespace trireme::cli
