#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/numbers/lanes.h"
#include "base/spans.h"
#include "base/step.h"
#include "base/wait_board.h"
#include "codec/error_feedback.h"
#include "net/connection.h"
#include "ps/layout.h"
#include "ps/protocol.h"

namespace trireme::ps {

struct ClientOptions {
  MemberId member = 1;     ///< which worker of the view this is
  cluster::ViewInfo view;  ///< where to begin; see cluster::first_view for jobs without a master
  Lane lanes = 1;
  std::string secret;
  net::Transport transport = net::Transport::kAuto;
  std::chrono::milliseconds step_timeout = 600s;  ///< for a push or pull: other workers may be slow, or evaluating
  std::chrono::milliseconds timeout = 60s;        ///< for each answer of a server
  std::uint64_t bits_per_second = 0;  ///< experiments: a slow link to each server, without shared memory; 0 = none
  std::chrono::milliseconds silent_after{0};  ///< a server whose host is silent for so long is lost; 0 = never

  WaitBoard* waits = nullptr;  ///< shows which answer is waited for; null: nobody asks. Outlives the client

  SpanRecorder* spans = nullptr;  ///< what pushes and pulls take; null: nobody wants to know. Outlives the client

  /// Called with each server whose host does not answer: before the call that fails for that reason throws, and in
  /// `interrupt`, on its thread.
  std::function<void(MemberId server)> on_unreachable = {};
};

/// A table with everything its servers know: for checkpoints and tests. One array for each of optim::state_names.
struct TableState {
  std::vector<float> parameters;
  std::vector<std::vector<float>> state;
};

/// What the servers hold, at some moment per chunk.
struct TablesState {
  Step oldest = 0;  ///< version of the chunk with the fewest steps
  Step newest = 0;
  Step updates = 0;         ///< steps that changed something, of the chunk with the most
  std::uint64_t units = 0;  ///< ssp, asp, for `restore`: the first so many are done
  std::vector<TableState> tables;
};

/// The worker's side of all parameter servers of a job. Owns the worker's flat parameter and gradient memory; gradients
/// lie in shared memory, so servers on this host read them in place. One thread at a time.
///
/// After PeerLost, Timeout or StaleView nothing works any more until `enter`. A step that was interrupted leaves the
/// parameters as they were before it, so it can be computed again and pushed again, in the next view, with other lanes:
/// chunks that had made it already answer with counted = false.
class Client {
 public:
  /// Connects to the servers of the view. Throws PeerLost, Timeout, Unauthenticated.
  Client(net::EventLoop& loop, ClientOptions options);
  ~Client();

  struct TableOptions {
    optim::UpdateConfig update;
    Consistency consistency;
    PlacementOptions placement;
    codec::Spec codec = {};     ///< how gradients travel; with error feedback if it says so
    Step checkpoint_every = 0;  ///< see JobTables
    double clip_norm = 0;       ///< likewise
    bool skips = false;         ///< likewise
  };

  /// Agrees with the servers on the tables and allocates memory for them. Once: also if it throws PeerLost, Timeout or
  /// StaleView; then `enter` a later view.
  void open(std::vector<TableSpec> tables, const TableOptions& options);

  /// Goes to another view, as `member` of it: connects to its servers, which forget what this worker pushed before. The
  /// tables stay open, parameters and gradients stay as they are. May be called again, with a later view, if it throws.
  /// Throws PeerLost, Timeout, StaleView if a server is in a later view already.
  void enter(const cluster::ViewInfo& view, MemberId member);

  const Layout& layout() const { return layout_; }

  /// Valid until the next `finish` or `pull`: over the network new parameters come into a second memory, and the two
  /// are exchanged when all are there.
  std::span<float> parameters(std::uint32_t table);
  std::span<float> gradients(std::uint32_t table);
  std::span<float> all_parameters() { return parameters_; }
  std::span<float> all_gradients() { return gradients_; }

  /// Uploads this worker's parameters as the initial ones. By the chief, once, before anybody pulls.
  void assign();

  /// Fetches all parameters as they are now. With bsp, if the outcome is not whole(), a step was interrupted in the
  /// middle, and the parameters here stay as they were: those who have them of version `oldest` push that step again.
  StepOutcome pull();

  /// What the servers hold. Incomplete: they wait for initial values or a checkpoint, which `assign` and `restore`
  /// bring; once it is complete again, all of that is there.
  LoadStatus load_status();

  /// Makes all servers hold `state`, whatever they hold now: a checkpoint. By the chief, before anybody pulls. What it
  /// leaves when it is interrupted is incomplete. Throws InvalidArgument if its sizes are not those of the tables.
  void restore(const TablesState& state);

  /// Reads parameters and optimizer state from the primaries. In bsp consistent if no step is under way.
  TablesState fetch();

  /// Whether all servers that hold something can write it into the run's checkpoints themselves, in this view.
  bool servers_save() const;

  /// How the servers took a request to save.
  struct SaveOutcome {
    std::uint32_t parts = 0;  ///< that they write: numbers 1 to `parts`, of one more
    Step updates = 0;         ///< steps that changed something
    std::string problem;      ///< why there will not be all parts; empty = they are on their way
  };

  /// Makes each server that holds something write its part of a checkpoint, in the background: the state at
  /// `request.version`, which has been reached by some chunk, and in ssp and asp by all. What is there now has been
  /// copied when this returns. `part` and `parts` of the request are filled in here. If `servers_save`.
  SaveOutcome save(SaveRequest request);

  /// Tables of the right sizes, all zero: to be filled for `restore`.
  TablesState empty_state() const;

  /// Sends the gradients of `tables`, asking for the new parameters if `pull`. What `info` says goes with them. Returns
  /// at once; the gradients must stay as they are, and the parameters unused, until `finish`.
  void push(std::span<const std::uint32_t> tables, const StepInfo& info, bool pull = true);

  /// With the step that is pushed next, parameters of these magnitudes and less are pruned (UpdateInput::prune_below),
  /// by table; until `finish`.
  void prune_below(std::vector<double> magnitudes) { prune_below_ = std::move(magnitudes); }

  /// Waits until everything pushed has been answered and the new parameters are in place: all of them, or, if it
  /// throws, none. Throws PeerLost, Timeout, or what a server refused.
  StepOutcome finish();

  /// Makes a wait in progress, and every later one until the next `enter`, fail with PeerLost that gives `reason`. From
  /// any thread.
  void interrupt(const std::string& reason);

  /// Tells every server that this worker will push no more. A server that is lost need not be told.
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
  struct Peer {
    MemberId server = 0;
    std::shared_ptr<net::Connection> connection;
    bool shares_memory = false;
    bool saves = false;
    std::uint64_t gradient_segment = 0;  // its id for the server; 0 = gradients travel in the payload
    std::uint64_t encoded_segment = 0;   // the same for encoded gradients
    std::vector<std::shared_ptr<net::Segment>> parameters;  // by shard: the server's, mapped
  };
  struct Sent;
  class Network;

  void connect();
  void open_peers();
  void close_peers();
  Peer& peer_of(std::uint32_t chunk);
  std::vector<Peer*> holders() const;
  std::shared_ptr<net::Connection> connect(const cluster::MemberInfo& server, net::Transport transport);
  net::InFrame wait(const Peer& peer, const std::shared_ptr<net::PendingReply>& pending, Deadline deadline,
                    const std::string& what) const;
  template <typename Reply, typename Ask>
  Reply call(const Peer& peer, std::uint16_t kind, const Ask& body, const std::string& what) const {
    const auto pending = peer.connection->send(
        {.kind = kind, .view = options_.view.view, .body = net::encode_message(body), .payload = {}, .sinks = {}});
    return net::decode_message<Reply>(wait(peer, pending, Deadline::in(options_.timeout), what).body_bytes());
  }
  void note_unreachable(MemberId server) const {
    if (options_.on_unreachable) options_.on_unreachable(server);
  }
  void place_new(std::span<const std::uint32_t> chunks);
  void send(Peer& peer, std::span<const std::uint32_t> chunks, PushPullRequest request);
  void send_chunks(std::span<const std::uint32_t> chunks, const PushPullRequest& what);
  void apply_pushed(Deadline deadline);
  void prepare_codec(const codec::Spec& spec);
  codec::Spec codec_of(const Layout::Chunk& chunk) const;
  std::size_t state_arrays(const TableSpec& table) const;
  MutableBytes encode(std::uint32_t chunk, Step step);
  void copy_shared(const Peer& peer, std::span<const std::uint32_t> chunks, Deadline deadline);

  net::EventLoop& loop_;
  ClientOptions options_;
  Rank rank_ = 0;                                          // of this worker in the view
  Mutex peers_mutex_;                                      // for interrupt; only this thread changes them
  std::vector<std::unique_ptr<Peer>> peers_;               // by position in the view's servers; null = holds nothing
  std::vector<Peer*> shard_peers_;                         // by shard
  std::vector<std::shared_ptr<net::Connection>> network_;  // for whole chunks, while some travel; like peers_
  std::string interrupted_ TRIREME_GUARDED_BY(peers_mutex_);
  bool in_place_ = true;  // all servers share memory: nothing is overwritten before all is there
  JobTables job_;
  Layout layout_;
  std::unique_ptr<float[]> memory_[2];  // parameters; the second is touched only where they come over the network
  std::span<float> parameters_;         // in one of them
  std::span<float> arriving_;           // in the other
  std::shared_ptr<net::Segment> gradient_segment_;
  std::span<float> gradients_;
  codec::Spec codec_;
  std::vector<codec::ErrorFeedback> feedback_;  // by chunk; empty without a codec
  std::vector<std::uint64_t> encoded_offsets_;  // by chunk: where its encoded gradient lies
  std::shared_ptr<net::Segment> encoded_segment_;
  std::vector<Sent> sent_;
  std::optional<Step> step_;         // of what was sent, for spans
  std::vector<double> prune_below_;  // by table; empty = nothing is pruned
  Traffic traffic_;
};

}  // namespace trireme::ps
