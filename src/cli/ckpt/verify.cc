#include "checkpoint/verify.h"

#include <fmt/format.h>

#include "cli/ckpt/commands.h"
#include "observe/bench_report.h"

namespace trireme::cli {

int ckpt_verify(const CkptVerifyOptions& options) {
  const std::filesystem::path folder = choose(options.choice, true);
  const checkpoint::VerifyReport report = checkpoint::verify(folder);
  if (options.json) {
    observe::Json damaged = observe::Json::array();
    for (const checkpoint::Damage& damage : report.damaged) {
      observe::Json holds = observe::Json::array();
      for (const checkpoint::PieceInfo& piece : damage.holds) {
        holds.push_back({{"tensor", piece.tensor}, {"offset", piece.offset}, {"length", piece.length}});
      }
      damaged.push_back({{"file", damage.file.string()},
                         {"part", damage.part},
                         {"block", damage.block},
                         {"begin", damage.begin},
                         {"end", damage.end},
                         {"expected", damage.expected},
                         {"found", damage.found},
                         {"holds", std::move(holds)}});
    }
    fmt::print("{}\n", observe::Json{{"folder", folder.string()},
                                     {"sound", report.sound()},
                                     {"bytes", report.bytes},
                                     {"blocks", report.blocks},
                                     {"damaged", std::move(damaged)},
                                     {"problems", report.problems}}
                           .dump());
    return report.sound() ? 0 : 1;
  }
  for (const std::string& problem : report.problems) fmt::print("{}\n", problem);
  for (const checkpoint::Damage& damage : report.damaged) fmt::print("{}\n", describe(damage));
  fmt::print("{}: {}: {} blocks, {} read, {} damaged\n", folder.string(), report.sound() ? "sound" : "DAMAGED",
             report.blocks, observe::as_size(report.bytes), report.damaged.size());
  return report.sound() ? 0 : 1;
}

}  // namespace trireme::cli
