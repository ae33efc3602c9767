#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "master/saved_job.h"

namespace trireme::master {

/// Where a master saves what must outlive it. The default saves nothing.
struct MasterLogEntry {
  SavedText saved = {};                                     ///< by an earlier master of this job; empty = the first one
  std::function<void(const SavedText& changes)> save = {};  ///< durably; may block. Throws StaleView once another
                                                            ///< master leads, IoError or Timeout if the store cannot
                                                            ///< be reached
  std::function<bool()> leading = [] { return true; };      ///< whether no other master can be deciding now
};

/// How an attempt to save ended.
struct SaveResult {
  bool saved = false;
  bool lost_leadership = false;  ///< another master leads
  std::string reason = {};       ///< why it was not saved
};

/// Saves `changes`; blocks for as long as the store takes.
SaveResult save_to(const MasterLogEntry& log_entry, const SavedText& changes);

/// What of the job is saved, and what waits for that. Writes the entries that have changed, one write at a time; what
/// changes meanwhile is in the next one. A value: it has no thread, and the master's lock guards it.
class MasterLog {
 public:
  using Current = std::function<SavedText()>;                   ///< returns the job as it is now
  using Write = std::function<void(const SavedText& changes)>;  ///< starts a write, whose end `written` is told
  using Then = std::function<void(bool saved)>;

  MasterLog(MasterLogEntry log_entry, Current current, Write write)
      : log_(std::move(log_entry)), current_(std::move(current)), write_(std::move(write)), saved_(log_.saved) {}

  /// Saves the job as it is when the write starts: now, or after the one in progress. `then` is called when that has
  /// ended, perhaps before this returns. After a failure everything is saved again, see `retry`.
  void save(Then then = {});

  /// Calls `then` when all that was to be saved is, or could not be.
  void when_saved(Then then);

  /// The write in progress has ended.
  void written(const SaveResult& result);

  /// Starts what could not be saved before; called periodically.
  void retry() { start(); }

  /// Returns whether the last save failed.
  bool unsaved() const { return !problem_.empty(); }

  /// Returns why it did; empty if it did not.
  const std::string& problem() const { return problem_; }

  /// Returns whether another master leads: this one makes no more decisions.
  bool lost_leadership() const { return lost_leadership_; }

  bool leading() const { return !lost_leadership_ && log_.leading(); }

 private:
  void start();
  void note(const SaveResult& result);

  const MasterLogEntry log_;
  const Current current_;
  const Write write_;
  SavedText saved_;                   // what is certainly in the store
  std::optional<SavedText> writing_;  // the changes on their way
  bool due_ = false;                  // there is more to write
  std::vector<Then> waiting_;         // for the next write
  std::vector<Then> in_progress_;     // for the one on its way
  std::string problem_;               // why the last write failed; empty: it did not
  bool lost_leadership_ = false;
};

}  // namespace trireme::master
