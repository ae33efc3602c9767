#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "trireme/deadline.h"

#include "cluster/environment.h"
#include "cluster/resolvers/resolvers.h"
#include "cluster/resolvers/start_plan.h"

namespace trireme::cluster {

/// What the first process of a job leaves for the others that the same launcher started.
struct Meeting {
  net::Address master;
  std::string secret;
  std::string run_folder;  ///< as the first process sees it

  NLOHMANN_DEFINE_TYPE_INTRUSIVE(Meeting, master, secret, run_folder)
};

/// This process's part of a job that another launcher started.
struct LaunchedPlace {
  LauncherPlace launcher;
  StartPlan plan;
  bool hosts_master = false;
  net::Address listen{.host = ""};  ///< of the master, if it is here; else its host is empty: where the route begins
  Meeting meeting;                  ///< without the master's address if that is to be hosted here
};

/// Returns what plan_start has to know of this process, except for the servers. Throws InvalidArgument (the secret),
/// IoError (no private folder can be made).
StartWish read_start_wish(const Variables& variables);

/// Returns this process's part. One that does not host the master waits until the master can be reached, and takes its
/// slot from it where the launcher has none. Throws InvalidArgument (see plan_start; a meeting file that others can
/// read), Timeout.
LaunchedPlace take_launched_place(const LauncherPlace& place, const StartWish& wish, Deadline deadline);

/// Waits until the master of `place`, which is hosted elsewhere, can be reached, and learns what it left. Throws
/// InvalidArgument, Timeout.
void await_launched_master(LaunchedPlace& place, Deadline deadline);

/// Tells the others where the master, which is hosted here, listens; in a file that only this user can read. Throws
/// IoError.
void announce(const LaunchedPlace& place, const net::Address& master, const std::string& run_folder);

/// Removes what `announce` left: everybody has read it. Does not throw.
void withdraw(const LaunchedPlace& place) noexcept;

/// Returns the place of a program of one's own, which is a worker itself. If it hosts the master it has to `announce`
/// where. Throws InvalidArgument if it is to be something else.
JobEnvironment to_environment(const LaunchedPlace& place, const Variables& variables);

}  // namespace trireme::cluster
