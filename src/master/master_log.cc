#include "master/master_log.h"

#include "base/error.h"
#include "base/log.h"

namespace trireme::master {

SaveResult save_to(const MasterLogEntry& log_entry, const SavedText& changes) {
  try {
    log_entry.save(changes);
    return {.saved = true};
  } catch (const StaleView& other) {
    return {.lost_leadership = true, .reason = other.what()};
  } catch (const Error& problem) {
    return {.reason = problem.what()};
  }
}

void MasterLog::save(Then then) {
  if (!log_.save || lost_leadership_) {
    if (then) then(!log_.save);
    return;
  }
  due_ = true;
  if (then) waiting_.push_back(std::move(then));
  start();
}

void MasterLog::when_saved(Then then) {
  if (due_ && !lost_leadership_) return waiting_.push_back(std::move(then));
  if (writing_) return in_progress_.push_back(std::move(then));
  then(!lost_leadership_);
}

void MasterLog::start() {
  if (writing_ || !due_ || lost_leadership_) return;
  due_ = false;
  in_progress_ = std::exchange(waiting_, {});
  writing_ = current_().changes_since(saved_);
  if (writing_->empty()) return written({.saved = true});
  write_(*writing_);
}

void MasterLog::written(const SaveResult& result) {
  const SavedText changes = *std::exchange(writing_, std::nullopt);
  std::vector<Then> told = std::exchange(in_progress_, {});
  note(result);
  if (result.saved) {
    saved_.apply(changes);
  } else {
    saved_ = {};  // nobody knows what is there now
    due_ = true;
  }
  if (lost_leadership_) {
    for (Then& then : std::exchange(waiting_, {})) told.push_back(std::move(then));
  }
  for (const Then& then : told) then(result.saved);
  if (result.saved) start();
}

/// Logs the first of several failures.
void MasterLog::note(const SaveResult& result) {
  if (result.lost_leadership) {
    log_error("leadership_lost", "another master leads: this one takes no more decisions", {{"reason", result.reason}});
  } else if (!result.saved && problem_.empty()) {
    log_error("state_not_saved", "cannot save the state of the job; will try again", {{"reason", result.reason}});
  } else if (result.saved && !problem_.empty()) {
    log_info("state_saved", "the state of the job could be saved again");
  }
  problem_ = result.saved ? "" : result.reason;
  lost_leadership_ = lost_leadership_ || result.lost_leadership;
}

}  // namespace trireme::master
