#include "trireme/cluster/ledger.h"

#include "trireme/base/error.h"
#include "trireme/base/log.h"

namespace trireme::cluster {

bool LedgerKeeper::save(const SavedJob& job) {
  if (!ledger_.save) return true;
  try {
    ledger_.save(to_text(job));
    unsaved_ = false;
    return true;
  } catch (const StaleView& other) {
    if (!deposed_) log_error("another master leads: this one decides nothing any more", {{"reason", other.what()}});
    deposed_ = true;
  } catch (const Error& problem) {
    if (!unsaved_) log_error("cannot save the state of the job: tries again", {{"reason", problem.what()}});
    unsaved_ = true;
  }
  return false;
}

}  // namespace trireme::cluster
