#pragma once

#include <functional>
#include <string>

#include "master/saved_job.h"

namespace trireme::master {

/// Where a master saves what must outlive it. The default saves nothing.
struct MasterLogEntry {
  std::string saved = {};                               ///< by an earlier master of this job; empty = this is the first
  std::function<void(const std::string&)> save = {};    ///< durably. Throws StaleView once another master leads,
                                                        ///< IoError or Timeout if the store cannot be reached
  std::function<bool()> leading = [] { return true; };  ///< whether no other master can be deciding now
};

/// A master's access to its log: remembers failures and logs each once.
class MasterLog {
 public:
  explicit MasterLog(MasterLogEntry log_entry) : log_(std::move(log_entry)) {}

  /// Returns false if it failed: try again later.
  bool save(const SavedJob& job);

  /// Returns whether the last save failed.
  bool unsaved() const { return !problem_.empty(); }

  /// Returns why it did; empty if it did not.
  const std::string& problem() const { return problem_; }

  /// Returns whether another master leads: this one makes no more decisions.
  bool lost_leadership() const { return lost_leadership_; }

  bool leading() const { return !lost_leadership_ && log_.leading(); }

 private:
  MasterLogEntry log_;
  std::string problem_;
  bool lost_leadership_ = false;
};

}  // namespace trireme::master
