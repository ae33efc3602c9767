#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "trireme/deadline.h"

namespace trireme::cli {

/// What `trireme agent` is told in its first line. Later lines are "." (the other end lives) or the number of a signal
/// for the process.
struct AgentOrder {
  std::vector<std::string> argv;           ///< the process; empty = only to answer the questions
  std::map<std::string, std::string> env;  ///< added to what the host has
  std::string folder;                      ///< where to work, if the host has it
  std::map<std::string, std::string> ids;  ///< file_id of the programs, by path: they have to be the same
  std::vector<std::string> look_for;       ///< files; does the host see them?

  NLOHMANN_DEFINE_TYPE_INTRUSIVE(AgentOrder, argv, env, folder, ids, look_for)
};

/// What it answers, in one line, if it has no process to start.
struct AgentAnswer {
  std::string problem;            ///< why the host cannot be used; empty = it can
  std::vector<std::string> seen;  ///< of `look_for`
  std::string launcher;           ///< the launcher's address, as this host sees it
  std::uint32_t cores = 0;

  NLOHMANN_DEFINE_TYPE_INTRUSIVE(AgentAnswer, problem, seen, launcher, cores)
};

/// The map of hosts: which of them has which slot ("worker 3"), for the processes that stand for those.
struct HostMap {
  std::map<std::string, std::string> hosts;
  std::vector<std::string> without_folder;  ///< hosts that do not see the run folder
  bool over = false;                        ///< the job is: nobody needs to wait for a host any longer

  NLOHMANN_DEFINE_TYPE_INTRUSIVE(HostMap, hosts, without_folder, over)
};

constexpr auto kAgentHeartbeat = std::chrono::seconds(2);
constexpr auto kAgentSilence = std::chrono::seconds(60);  ///< after which either end takes the other for gone

/// Returns the words that run `trireme agent` on `host`: ssh, or what TRIREME_SSH names instead, such as "ssh -F file".
/// The command has to be at the same path there.
std::vector<std::string> ssh_words(const std::string& host, const std::string& trireme);

/// How a command on a host ended.
struct SshOutcome {
  int status = -1;  ///< 255: ssh itself failed
  std::string out = {};
  std::string err = {};
};

/// Runs `words` with `input` on its standard input. Kills it at the deadline. Thread-safe. Throws IoError.
SshOutcome run_ssh(const std::vector<std::string>& words, const std::string& input, Deadline deadline);

}  // namespace trireme::cli
