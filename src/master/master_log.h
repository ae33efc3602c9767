#pragma once

#include <functional>
#include <string>

#include "master/saved_job.h"

namespace trireme::master {

/// Where a master keeps what must outlive it. The default keeps nothing.
struct MasterLogEntry {
  std::string saved = {};                               ///< by an earlier master of this job; empty = it is the first
  std::function<void(const std::string&)> save = {};    ///< durably. Throws StaleView once another master leads,
                                                        ///< IoError or Timeout if the store cannot be reached
  std::function<bool()> leading = [] { return true; };  ///< whether no other master can be deciding now
};

/// A master's use of its log: what went wrong is remembered and said once.
class MasterLog {
 public:
  explicit MasterLog(MasterLogEntry log_entry) : log_(std::move(log_entry)) {}

  /// False if that failed: try again later.
  bool save(const SavedJob& job);

  /// Whether the last save failed.
  bool unsaved() const { return unsaved_; }

  /// Whether another master leads: this one decides nothing any more.
  bool lost_leadership() const { return lost_leadership_; }

  bool leading() const { return !lost_leadership_ && log_.leading(); }

 private:
  MasterLogEntry log_;
  bool unsaved_ = false;
  bool lost_leadership_ = false;
};

}  // namespace trireme::master
