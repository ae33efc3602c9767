#include "ps/server.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <thread>

#include <boost/asio/thread_pool.hpp>

#include "base/error.h"
#include "base/log.h"
#include "ps/part_saver.h"
#include "ps/push_pull.h"
#include "ps/tables.h"

namespace trireme::ps {
namespace {

constexpr std::size_t kSpreadFrom = 512u << 10;  // bytes from which a request is worth several threads

}  // namespace

class Server::Impl final : public net::RequestHandler {
 public:
  explicit Impl(ServerOptions options) : options_(std::move(options)) {
    if (!options_.service.pool) options_.service.pool = std::make_shared<net::BufferPool>();
    if (options_.compute_threads > 0) compute_.emplace(options_.compute_threads);
    if (!options_.checkpoints.empty()) saver_.emplace(options_.checkpoints, options_.spans);
    options_.service.listener.role = "server";
    service_.emplace(options_.service, *this);
  }

  ~Impl() override {
    service_.reset();  // no request arrives any more
    if (compute_) compute_->join();
    saver_.reset();  // while the tables are there
    if (!held_) return;
    for (const auto& shard : held_->shards()) {  // chunks and those who wait for them keep each other alive
      for (std::size_t i = 0; i < shard->size(); ++i) shard->chunk(i).enter(~View{0}, /*workers=*/0, {});
    }
    for (const auto& link : links_) link->close("this server ends");
    for (const auto& link : links_) link->join();
    held_.reset();
    links_.clear();  // with their connections, before the loop of these
  }

  const net::Address& address() const { return service_->address(); }
  void set_silent_after(std::chrono::milliseconds time) { silent_after_.store(time); }

  void enter(const cluster::ViewInfo& view, MemberId self) {
    const MutexLock lock(enter_mutex_);
    enter_locked(view, self);
  }

  ServerStats stats() const {
    ServerStats stats{.resident_bytes = resident_bytes()};
    const auto held = this->held();
    if (!held) return stats;
    for (const auto& shard : held->shards()) {
      stats.parameter_bytes += shard->parameter_bytes();
      stats.state_bytes += shard->state_bytes();
      stats.chunks += shard->size();
    }
    return stats;
  }

  ServerStatus status() const {
    const auto held = this->held();
    // Of the view that the reports are about: while the next one is being entered, `view_` is ahead of that.
    ServerStatus status{.view = held ? held->view() : view_.load(), .replicas = {}};
    if (!held) return status;
    for (const auto& link : held->links()) {
      for (cluster::ShardReport& report : link->reports()) status.replicas.push_back(std::move(report));
    }
    for (cluster::ShardReport& report : held->empty_shards()) status.replicas.push_back(std::move(report));
    const MutexLock lock(mutex_);
    status.replicas.insert(status.replicas.end(), silent_before_.begin(), silent_before_.end());
    return status;
  }

  Chunk::Clocks clocks() const {
    const auto held = this->held();
    return held ? held->clocks() : Chunk::Clocks{};
  }

  void on_request(const net::SessionPtr& session, net::InFrame frame) override {
    switch (frame.header.kind) {
      case kOpen:
        return open(session, frame);
      case kStats:
        return session->reply(frame.header, stats());
      case kAssign:
        return push_pull(session, std::move(frame))->assign();
      case kPushPull:
        return spread(push_pull(session, std::move(frame)));
      case kLeave:
        return leave(session, frame);
      case kFetch:
        return fetch(session, frame);
      case kRestore:
        return restore(session, frame);
      case kLoadStatus:
        return session->reply(frame.header, held_in_view_of(frame.header)->load_status());
      case kClear:
        return clear(session, frame);
      case kSave:
        return save(session, frame);
      case kSync:
        return sync(session, frame);
      case kInstall:
        return install(session, frame);
      case kReplicate:
        return replicate(session, frame);
      default:
        fail<InvalidArgument>("a parameter server does not know request kind {}", frame.header.kind);
    }
  }

  void on_disconnect(const net::SessionPtr& session, const std::string& reason) override {
    log_info("connection_ended", "a connection ended", {{"peer", session->peer()}, {"reason", reason}});
  }

 private:
  std::shared_ptr<const HeldShards> held() const {
    const MutexLock lock(mutex_);
    return held_;
  }

  /// What requests of `header`'s view work on. Throws StaleView if that is not ours.
  std::shared_ptr<const HeldShards> held_in_view_of(const net::FrameHeader& header) const {
    auto held = this->held();
    const View ours = view_.load();
    if (ours != 0 && header.view != ours) {
      fail<StaleView>("server {} is in view {}, the request in view {}: rejoin the job", options_.rank, ours,
                      header.view);
    }
    if (!held) fail<InvalidArgument>("server {} has no tables yet: open them first", options_.rank);
    return held;  // if it is older than the view by now, its chunks refuse
  }

  // ---- Views.

  void enter_locked(const cluster::ViewInfo& view, MemberId self) TRIREME_REQUIRES(enter_mutex_) {
    const View ours = view_.load();
    if (view.view < ours) {
      fail<StaleView>("server {} is in view {}, the request in view {}: rejoin the job", options_.rank, ours,
                      view.view);
    }
    const auto known = std::ranges::find(view.servers, self, &cluster::MemberInfo::id);
    if (view.view == 0 || known == view.servers.end()) {
      fail<InvalidArgument>("member {} is no server of view {}", self, view.view);
    }
    if (view.view == ours) {
      if (self != self_ || nlohmann::json(view) != nlohmann::json(info_)) {
        fail<InvalidArgument>("server {} knows view {} with other members, or as another one of them", options_.rank,
                              ours);
      }
      return;
    }
    if (tables_) tables_->check_view(view);
    info_ = view;
    self_ = self;
    view_.store(view.view);
    if (tables_) hold();
  }

  void create_tables(const JobTables& job) TRIREME_REQUIRES(enter_mutex_) {
    auto tables =
        std::make_shared<Tables>(job, options_.service.pool, /*snapshots=*/saver_.has_value(), options_.spans);
    if (view_.load() != 0) tables->check_view(info_);
    tables_ = std::move(tables);
    if (view_.load() != 0) hold();
  }

  /// Takes the places that the present view gives this server.
  void hold() TRIREME_REQUIRES(enter_mutex_) {
    if (!peers_) peers_ = std::make_unique<net::EventLoop>("server-peers");
    const auto before = held();
    const auto now = std::make_shared<HeldShards>(tables_, info_, self_, before.get(), *peers_,
                                                  ReplicaLinkOptions{.replica = {},
                                                                     .open = {},
                                                                     .secret = options_.service.listener.secret,
                                                                     .transport = options_.transport,
                                                                     .timeout = options_.replica_timeout,
                                                                     .silent_after = silent_after_.load(),
                                                                     .on_point = options_.on_point});
    const bool just_before = before && before->view() + 1 == info_.view;
    auto silent = just_before ? silent_replicas(*before) : std::vector<cluster::ShardReport>();
    {
      const MutexLock lock(mutex_);
      held_ = now;
      silent_before_ = std::move(silent);
    }
    std::erase_if(links_, [](const auto& link) { return link->ended(); });
    if (before) {
      for (const auto& link : before->links()) {
        link->close(fmt::format("view {} has ended: send it again in view {}", before->view(), info_.view));
      }
    }
    for (const auto& link : now->links()) {
      links_.push_back(link);
      link->start();
    }
    std::uint64_t bytes = 0;
    std::size_t primaries = 0;
    for (const auto& shard : now->shards()) {
      bytes += shard->parameter_bytes();
      primaries += now->is_primary(*shard) ? 1 : 0;
    }
    log_info("shards_held", "holds its shards of the parameters",
             {{"view", info_.view},
              {"shards", now->shards().size()},
              {"primary", primaries},
              {"bytes", bytes},
              {"rule", to_string(tables_->description().update.rule)},
              {"consistency", to_string(tables_->description().consistency)}});
  }

  static std::vector<cluster::ShardReport> silent_replicas(const HeldShards& held) {
    std::vector<cluster::ShardReport> silent;
    for (const auto& link : held.links()) {
      for (cluster::ShardReport& report : link->reports()) {
        report.in_sync = false;  // in that view, not in the next
        if (report.silent) silent.push_back(std::move(report));
      }
    }
    return silent;
  }

  void open(const net::SessionPtr& session, const net::InFrame& frame) {
    const auto request = net::decode_message<OpenRequest>(frame.body_bytes());
    if (frame.header.view != request.view.view) {
      fail<InvalidArgument>("a request of view {} opens view {}", frame.header.view, request.view.view);
    }
    std::shared_ptr<const HeldShards> held;
    {
      const MutexLock lock(enter_mutex_);
      if (tables_) {
        tables_->check_same(request.job);
      } else {  // all of it is checked before any of it is kept
        Tables(request.job, options_.service.pool).check_view(request.view);
      }
      enter_locked(request.view, request.server);
      if (!tables_) create_tables(request.job);
      held = this->held();
    }
    OpenReply reply{
        .shares_memory = session->channel().shares_memory(), .shards = {}, .segments = {}, .saves = saver_.has_value()};
    for (const auto& shard : held->shards()) {
      if (!reply.shares_memory || !held->is_primary(*shard) || shard->size() == 0) continue;
      reply.shards.push_back(shard->number());
      reply.segments.push_back(session->channel().share(shard->segment()));
    }
    session->reply(frame.header, reply);
  }

  // ---- Workers.

  std::shared_ptr<PushPull> push_pull(const net::SessionPtr& session, net::InFrame frame) {
    auto held = held_in_view_of(frame.header);
    auto request = net::decode_message<PushPullRequest>(frame.body_bytes());
    if (frame.header.kind == kAssign) request.push = true;
    return std::make_shared<PushPull>(session, std::move(frame), std::move(request), std::move(held),
                                      *options_.service.pool);
  }

  /// Runs the chunks of a request here, or over the compute threads if it is large.
  void spread(const std::shared_ptr<PushPull>& push_pull) {
    const char* const what = push_pull->pushes() ? "push" : "pull";
    const std::optional<Step> step = push_pull->pushes() ? std::optional(push_pull->step()) : std::nullopt;
    if (!compute_ || push_pull->bytes() < kSpreadFrom) {
      const ScopedSpan span(options_.spans, what, step);
      return push_pull->run(0, push_pull->size());
    }
    const std::size_t tasks = std::min(push_pull->size(), 4 * options_.compute_threads);
    for (std::size_t i = 0; i < tasks; ++i) {
      const std::size_t begin = push_pull->size() * i / tasks;
      const std::size_t end = push_pull->size() * (i + 1) / tasks;
      boost::asio::post(*compute_, [this, push_pull, begin, end, what, step] {
        const ScopedSpan span(options_.spans, what, step);
        push_pull->run_reporting(begin, end);
      });
    }
  }

  void leave(const net::SessionPtr& session, const net::InFrame& frame) const {
    const auto held = held_in_view_of(frame.header);
    const auto request = net::decode_message<LeaveRequest>(frame.body_bytes());
    for (const auto& shard : held->shards()) {
      for (std::size_t i = 0; i < shard->size() && held->is_primary(*shard); ++i) {
        shard->chunk(i).leave(request.worker);
      }
    }
    held->flush();
    session->reply(frame.header, Done{});
  }

  void fetch(const net::SessionPtr& session, const net::InFrame& frame) const {
    const auto held = held_in_view_of(frame.header);
    if (session->channel().shares_memory()) fail<InvalidArgument>("whole chunks travel over the network only");
    const auto request = net::decode_message<FetchRequest>(frame.body_bytes());
    const auto [header, state] = held->held(request.chunk).state();
    session->reply(frame.header, header, {Bytes(state.memory.get(), state.bytes)}, state.memory);
  }

  void clear(const net::SessionPtr& session, const net::InFrame& frame) const {
    const auto held = held_in_view_of(frame.header);
    for (const auto& shard : held->shards()) {
      for (std::size_t i = 0; i < shard->size() && held->is_primary(*shard); ++i) {
        shard->chunk(i).clear(frame.header.view);
      }
    }
    session->reply(frame.header, Done{});
  }

  void restore(const net::SessionPtr& session, const net::InFrame& frame) const {
    const auto held = held_in_view_of(frame.header);
    const auto header = net::decode_message<ChunkHeader>(frame.body_bytes());
    held->primary_of(header.chunk)
        .restore(header, floats_of(frame), frame.header.view, std::make_shared<PendingRestore>(session, frame.header));
    held->flush();
  }

  void save(const net::SessionPtr& session, const net::InFrame& frame) {
    const auto held = held_in_view_of(frame.header);
    const auto request = net::decode_message<SaveRequest>(frame.body_bytes());
    if (!saver_) {
      fail<InvalidArgument>(
          "server {} writes no checkpoints: it was started without the run's folder (--run-dir, TRIREME_RUN_DIR)",
          options_.rank);
    }
    session->reply(frame.header, saver_->save(request, *held));
  }

  // ---- Primaries, for their copies here.

  void sync(const net::SessionPtr& session, const net::InFrame& frame) const {
    const auto held = held_in_view_of(frame.header);
    const auto request = net::decode_message<SyncRequest>(frame.body_bytes());
    SyncReply reply;
    for (const auto& shard : held->shards()) {
      for (std::size_t i = 0; i < shard->size() && held->is_replica(*shard, request.from); ++i) {
        reply.chunks.push_back(shard->chunk(i).index());
        reply.histories.push_back(shard->chunk(i).history());
      }
    }
    session->reply(frame.header, reply);
  }

  void install(const net::SessionPtr& session, const net::InFrame& frame) const {
    const auto held = held_in_view_of(frame.header);
    const auto request = net::decode_message<InstallRequest>(frame.body_bytes());
    held->replica_of(request.header.chunk, request.from).install(request.header, floats_of(frame), frame.header.view);
    session->reply(frame.header, Done{});
  }

  void replicate(const net::SessionPtr& session, const net::InFrame& frame) const {
    const auto held = held_in_view_of(frame.header);
    const auto request = net::decode_message<ReplicateRequest>(frame.body_bytes());
    if (options_.on_point) options_.on_point(CrashPoint::kReceived);
    std::span<const float> gradients = floats_of(frame);
    const auto floats_for = [&](const ReplicaUpdate& update) {
      return update.empty ? 0 : held->replica_of(update.chunk, request.from).parameters().size();
    };
    std::size_t expected = 0;
    for (const ReplicaUpdate& update : request.updates) expected += floats_for(update);
    if (expected != gradients.size()) {
      fail<Corrupt>("updates for {} floats bring {}", expected, gradients.size());
    }
    for (const ReplicaUpdate& update : request.updates) {
      const std::size_t count = floats_for(update);
      held->replica_of(update.chunk, request.from).replicate(update, gradients.first(count), frame.header.view);
      gradients = gradients.subspan(count);
    }
    if (options_.on_point) options_.on_point(CrashPoint::kRepeated);
    session->reply(frame.header, Done{});
  }

  static std::span<const float> floats_of(const net::InFrame& frame) {
    const MutableBytes payload = frame.payload_bytes();
    if (payload.size() % sizeof(float) != 0) fail<Corrupt>("{} bytes are no floats", payload.size());
    return {reinterpret_cast<const float*>(payload.data()), payload.size() / sizeof(float)};
  }

  ServerOptions options_;
  std::atomic<View> view_{0};
  std::atomic<std::chrono::milliseconds> silent_after_{ReplicaLinkOptions{}.silent_after};
  Mutex enter_mutex_;                                                      // one change of view at a time
  std::shared_ptr<const Tables> tables_ TRIREME_GUARDED_BY(enter_mutex_);  // set once
  cluster::ViewInfo info_ TRIREME_GUARDED_BY(enter_mutex_);
  MemberId self_ TRIREME_GUARDED_BY(enter_mutex_) = 0;
  /// Whose threads may run, of former views too: joined here.
  std::vector<std::shared_ptr<ReplicaLink>> links_ TRIREME_GUARDED_BY(enter_mutex_);
  mutable Mutex mutex_;
  std::shared_ptr<const HeldShards> held_ TRIREME_GUARDED_BY(mutex_);
  /// Of the view before: the workers may have been faster than the news that its replicas do not answer.
  std::vector<cluster::ShardReport> silent_before_ TRIREME_GUARDED_BY(mutex_);
  std::unique_ptr<net::EventLoop> peers_ TRIREME_GUARDED_BY(enter_mutex_);  // for the replicas
  std::optional<boost::asio::thread_pool> compute_;
  std::optional<PartSaver> saver_;
  std::optional<net::Service> service_;
};

Server::Server(ServerOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}

Server::~Server() = default;

const net::Address& Server::address() const { return impl_->address(); }

void Server::enter(const cluster::ViewInfo& view, MemberId self) { impl_->enter(view, self); }

void Server::set_silent_after(std::chrono::milliseconds time) { impl_->set_silent_after(time); }

ServerStats Server::stats() const { return impl_->stats(); }

ServerStatus Server::status() const { return impl_->status(); }

Chunk::Clocks Server::clocks() const { return impl_->clocks(); }

std::size_t default_service_threads() { return std::clamp<std::size_t>(std::thread::hardware_concurrency() / 2, 1, 4); }

std::size_t default_compute_threads() {
  const std::size_t cores = std::thread::hardware_concurrency();
  return cores > 2 ? std::min<std::size_t>(cores / 2, 8) : 0;
}

std::uint64_t resident_bytes() {
  std::uint64_t total = 0;
  std::uint64_t resident = 0;
  std::ifstream("/proc/self/statm") >> total >> resident;
  return resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace trireme::ps
