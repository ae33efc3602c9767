#include "cli/flags/check_script.h"

#include <chrono>
#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "base/random.h"
#include "cli/model/run_samples.h"
#include "cli/model/torch_archive_process.h"

namespace trireme::cli {
namespace {

constexpr auto kTime = std::chrono::seconds(120);
constexpr std::string_view kName = "trireme: ";  // what the other program's messages begin with

/// A file that is gone with this object.
struct TemporaryFile {
  std::filesystem::path path = std::filesystem::temp_directory_path() / ("trireme-script-" + random_hex(8) + ".log");

  ~TemporaryFile() {
    std::error_code ignored;
    std::filesystem::remove(path, ignored);
  }
};

}  // namespace

void to_json(nlohmann::json& json, const ScriptNeeds& needs) {
  json = {{"samples", needs.samples}, {"task", needs.task}, {"outputs", needs.outputs}};
}

void from_json(const nlohmann::json& json, ScriptNeeds& needs) {
  json.at("samples").get_to(needs.samples);
  json.at("task").get_to(needs.task);
  json.at("outputs").get_to(needs.outputs);
}

void check_script(const std::string& file, const ScriptNeeds& needs) {
  const TemporaryFile said;
  try {
    const int status = run_torch_archive({"check-script", file, nlohmann::json(needs).dump()}, file, kTime, said.path);
    if (status == 0) return;
  } catch (const Corrupt& problem) {  // it crashed
    fail<InvalidArgument>("--model {}", problem.what());
  }
  std::string message = read_file(said.path);
  while (message.ends_with('\n')) message.pop_back();
  if (const std::size_t at = message.rfind(kName); at != std::string::npos) message.erase(0, at + kName.size());
  fail<InvalidArgument>("--model {}: {}", file, message);
}

}  // namespace trireme::cli
