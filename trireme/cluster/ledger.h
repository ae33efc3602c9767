#pragma once

#include <functional>
#include <string>

#include "trireme/cluster/saved_job.h"

namespace trireme::cluster {

/// Where a master keeps what must outlive it. The default keeps nothing.
struct Ledger {
  std::string saved = {};                               ///< by an earlier master of this job; empty = it is the first
  std::function<void(const std::string&)> save = {};    ///< durably. Throws StaleView once another master leads,
                                                        ///< IoError or Timeout if the store cannot be reached
  std::function<bool()> leading = [] { return true; };  ///< whether no other master can be deciding now
};

/// A master's use of its ledger: what went wrong is remembered and said once.
class LedgerKeeper {
 public:
  explicit LedgerKeeper(Ledger ledger) : ledger_(std::move(ledger)) {}

  /// False if that failed: try again later.
  bool save(const SavedJob& job);

  /// Whether the last save failed.
  bool unsaved() const { return unsaved_; }

  /// Whether another master leads: this one decides nothing any more.
  bool deposed() const { return deposed_; }

  bool leading() const { return !deposed_ && ledger_.leading(); }

 private:
  Ledger ledger_;
  bool unsaved_ = false;
  bool deposed_ = false;
};

}  // namespace trireme::cluster
