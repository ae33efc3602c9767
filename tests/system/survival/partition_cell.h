#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/system/host.h"
#include "tests/system/placed_job.h"

namespace trireme::system_test {

/// Which two roles lose each other's packets: one process of each, except where there are two workers.
enum class CutPair {
  kWorkerWorker,
  kWorkerServer,
  kTwoWorkersServer,
  kServerServer,
  kWorkerMaster,
  kServerMaster,
  kMasterEtcd
};

/// Which packets are lost: all between the two, or only those from the first to the second, or back.
enum class CutDirection { kBoth, kThere, kBack };

inline constexpr CutPair kCutPairs[] = {CutPair::kWorkerWorker, CutPair::kWorkerServer, CutPair::kTwoWorkersServer,
                                        CutPair::kServerServer, CutPair::kWorkerMaster, CutPair::kServerMaster,
                                        CutPair::kMasterEtcd};
inline constexpr CutDirection kCutDirections[] = {CutDirection::kBoth, CutDirection::kThere, CutDirection::kBack};

/// One cell of the partition matrix.
struct PartitionCell {
  CutPair pair = CutPair::kWorkerWorker;
  CutDirection direction = CutDirection::kBoth;
  std::optional<std::chrono::seconds> lasts = {};  ///< nullopt = for good
  /// Instead, if not empty: until the master has named a reason with these words, and formed a view if it needs one.
  std::string until_named = {};
  std::string consistency = "bsp";  ///< where there are servers; in `ssp` and `asp` there always are

  std::string name() const;  ///< "worker-server both 5s", "worker-server both 5s asp"
  bool leased() const { return consistency != "bsp"; }
};

/// What became of the job.
struct PartitionOutcome {
  double pause_s = 0;              ///< the longest time without a step that began before the link healed
  std::optional<double> named_s;   ///< after which the master named the reason; nullopt = it had none to name
  std::string reason = {};         ///< the last that it named before the link healed
  View views = 0;                  ///< how many were formed because of it
  std::optional<double> healed_s;  ///< after the link did, until all took part and all copies were there again
  bool equal = false;              ///< the parameters at the end have the bits of an undisturbed run; in ssp and asp:
                                   ///< every unit took effect once
  std::vector<std::string> wrong;  ///< which promises did not hold
  std::vector<std::string> late;   ///< which did not hold in time
};

/// The master's --hang-after in these jobs, and how long a job may stand still or be silent about the reason.
inline constexpr auto kCellHangAfter = 3s;
inline constexpr auto kCellPatience = kCellHangAfter + 2s;

/// A job of three workers, with all-reduce, or on two servers, of two masters and an etcd; each process on a host of
/// its own.
class PartitionedJob {
 public:
  explicit PartitionedJob(const PartitionCell& cell);

  /// Whether networks can be made here.
  static bool permitted() { return Host::make("10.99.0.1") != nullptr; }

  /// Starts the job, cuts, watches, heals, and ends it.
  PartitionOutcome run();

  /// What all processes have logged so far, by name.
  std::map<std::string, std::string> logs();

 private:
  using Nanoseconds = std::int64_t;

  std::string audit();
  const Host& host(const std::string& name) const { return *hosts_.at(names_.at(name)); }
  void start();
  void set_link(bool cut);
  [[nodiscard]] bool watch_until(const std::function<bool()>& done, std::chrono::milliseconds within);
  void read_master_logs();
  bool reason_named() const;
  bool named() const;
  double longest_pause(Nanoseconds begun_before) const;
  nlohmann::json status();
  bool complete();
  void end();

  const PartitionCell cell_;
  std::vector<std::unique_ptr<Host>> hosts_;
  std::map<std::string, std::size_t> names_;
  PlacedJob job_;
  std::map<std::string, std::unique_ptr<Program>> programs_;  // all but the workers
  Nanoseconds cut_at_ = 0;
  bool healed_ = false;
  std::vector<Nanoseconds> made_;             // when each new step was made, from the last one before the cut on
  std::map<std::string, std::size_t> known_;  // events of each master's log that are of before
  PartitionOutcome outcome_;
};

}  // namespace trireme::system_test
