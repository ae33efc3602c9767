#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "trireme/base/lanes.h"
#include "trireme/codec/error_feedback.h"
#include "trireme/net/connection.h"
#include "trireme/ps/layout.h"
#include "trireme/ps/protocol.h"

namespace trireme::ps {

struct ClientOptions {
  Rank worker = 0;
  std::uint32_t workers = 1;
  Lane lanes = 1;
  View view = 0;
  std::string secret;
  std::vector<net::Address> servers;
  net::Transport transport = net::Transport::kAuto;
  std::chrono::milliseconds step_timeout = 600s;  ///< for a push or pull: other workers may be slow, or evaluating
  std::chrono::milliseconds timeout = 60s;        ///< for each answer of a server
  std::uint64_t bits_per_second = 0;  ///< experiments: a slow link to each server, without shared memory; 0 = none
};

/// What one push stands for.
struct PushInfo {
  Step step = 0;       ///< steps this worker has finished
  LaneRange lanes;     ///< whose gradients are summed in it
  double samples = 0;  ///< how many samples
  double lr = 0;
  bool stop = false;  ///< ask everybody to stop after this step
};

/// How a step ended for this worker.
struct StepOutcome {
  Step oldest = 0;      ///< updates of the chunk that had the fewest
  Step newest = 0;      ///< and the most
  bool counted = true;  ///< false: some of this worker's gradients came too late (backup workers)
  bool stop = false;
};

/// The worker's side of all parameter servers of a job. Owns the worker's flat parameter and gradient memory; gradients
/// lie in shared memory, so servers on this host read them in place. One thread at a time.
class Client {
 public:
  /// Connects to every server. Throws PeerLost, Timeout, Unauthenticated.
  Client(net::Loop& loop, ClientOptions options);
  ~Client();

  struct TableOptions {
    UpdateConfig update;
    Consistency consistency;
    PlacementOptions placement;
    codec::Spec codec = {};  ///< how gradients travel; with error feedback if it says so
  };

  /// Agrees with the servers on the tables and allocates memory for them. Once.
  void open(std::vector<TableSpec> tables, const TableOptions& options);

  const Layout& layout() const { return layout_; }
  std::span<float> parameters(std::uint32_t table);
  std::span<float> gradients(std::uint32_t table);
  std::span<float> all_parameters() { return parameters_; }
  std::span<float> all_gradients() { return gradients_; }

  /// Uploads this worker's parameters as the initial ones. By the chief, once, before anybody pulls.
  void assign();

  /// Fetches all parameters as they are now.
  StepOutcome pull();

  /// Sends the gradients of `tables`, asking for the new parameters if `pull`. Returns at once; the gradients must stay
  /// as they are, and the parameters unused, until `finish`.
  void push(std::span<const std::uint32_t> tables, const PushInfo& info, bool pull = true);

  /// Waits until everything pushed has been answered and the new parameters are in place.
  /// Throws PeerLost, Timeout, or what a server refused.
  StepOutcome finish();

  /// Makes a wait in progress, and every later one, fail with PeerLost that gives `reason`. From any thread.
  void interrupt(const std::string& reason);

  /// Tells every server that this worker will push no more.
  void leave();

  /// What this worker has pushed and pulled so far.
  struct Traffic {
    std::uint64_t pushed_bytes = 0;    ///< as they travelled
    std::uint64_t gradient_bytes = 0;  ///< what that would have been as floats
    std::uint64_t pulled_bytes = 0;
    double encode_seconds = 0;
  };
  const Traffic& traffic() const { return traffic_; }

  std::vector<ServerStats> server_stats();
  std::string transports() const;  ///< for people: "server 0 (shm 127.0.0.1:4821)"

 private:
  struct Peer;
  struct Sent;

  void send(Peer& peer, std::span<const std::uint32_t> chunks, const PushInfo& info, bool push, bool pull);
  void send_chunks(std::span<const std::uint32_t> chunks, const PushInfo& info, bool push, bool pull);
  void prepare_codec(const codec::Spec& spec);
  MutableBytes encode(std::uint32_t chunk, Step step);
  void copy_shared(const Peer& peer, std::span<const std::uint32_t> chunks, Deadline deadline);

  ClientOptions options_;
  std::vector<std::unique_ptr<Peer>> peers_;
  Layout layout_;
  std::vector<float> parameter_memory_;
  std::span<float> parameters_;
  std::shared_ptr<net::Segment> gradient_segment_;
  std::span<float> gradients_;
  codec::Spec codec_;
  std::vector<codec::ErrorFeedback> feedback_;  // by chunk; empty without a codec
  std::vector<std::uint64_t> encoded_offsets_;  // by chunk: where its encoded gradient lies
  std::shared_ptr<net::Segment> encoded_segment_;
  std::vector<Sent> sent_;
  Traffic traffic_;
};

}  // namespace trireme::ps
