#include "dist/world.h"

#include <unistd.h>

#include <algorithm>
#include <numeric>
#include <thread>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "dist/fused_reduce.h"
#include "tensor/broadcast.h"
#include "tensor/device/host_memory.h"
#include "tensor/torch_dtype.h"

namespace trireme::dist {
namespace {

using Kind = OpRequest::Kind;

collective::Array array_of(torch::Tensor& tensor) { return {DType::kU8, tensor.data_ptr(), tensor.nbytes()}; }

collective::ConstArray array_of(const torch::Tensor& tensor) {
  return {DType::kU8, tensor.data_ptr(), tensor.nbytes()};
}

void check_defined(const torch::Tensor& tensor, const char* call) {
  if (!tensor.defined()) fail<InvalidArgument>("{} of a tensor that is not defined", call);
}

/// A tensor as rows: what its first dimension counts. A number is one row.
struct Rows {
  std::int64_t count = 1;
  std::vector<std::int64_t> shape;  // of one

  explicit Rows(const torch::Tensor& tensor) {
    if (tensor.dim() == 0) return;
    count = tensor.size(0);
    shape = tensor.sizes().slice(1).vec();
  }

  std::size_t bytes(const torch::Tensor& like) const {
    auto all = static_cast<std::size_t>(like.element_size());
    for (const std::int64_t extent : shape) all *= static_cast<std::size_t>(extent);
    return all;
  }

  torch::Tensor make(std::int64_t rows, const torch::Tensor& like) const {
    std::vector<std::int64_t> whole{rows};
    whole.insert(whole.end(), shape.begin(), shape.end());
    return torch::empty(whole, torch::TensorOptions(like.scalar_type()));
  }
};

/// How a type is called in requests: those that we do not know are compared by their size only.
DType requested_type(const torch::Tensor& tensor) { return dtype_of(tensor.scalar_type()).value_or(DType::kU8); }

}  // namespace

std::string World::this_host() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) fail_errno("gethostname");
  // The name alone is not enough: containers of two machines may be called the same.
  return std::string(name.data()) + " " + read_file("/proc/sys/kernel/random/boot_id");
}

namespace {

/// {"steps": 400} as "--steps 400".
std::string as_flags(const std::string& options) {
  std::string flags;
  const auto given = nlohmann::json::parse(options);
  for (const auto& [name, value] : given.items()) {
    flags += fmt::format("{}--{} {}", flags.empty() ? "" : ", ", name,
                         value.is_string() ? value.get<std::string>() : value.dump());
  }
  return flags;
}

}  // namespace

World::World(collective::Communicator& ranks, const std::string& host) : impl_(std::make_unique<Impl>()) {
  impl_->connect(ranks, host);
}

World::World(std::unique_ptr<Job> job) : impl_(std::make_unique<Impl>(std::move(job))) {
  JobSession& session = impl_->job->session();
  if (const std::string& given = session.take_train_options(); !given.empty()) {
    fail<InvalidArgument>("{}: that is for programs with a Trainer, and this one has a loop of its own: leave it out",
                          as_flags(given));
  }
  session.on_failure([impl = impl_.get()](const std::string& reason) { impl->abort_channels(reason); });
  if (impl_->newcomer()) {
    impl_->guess_neighbours();
    return;
  }
  impl_->connect(session.ranks(), this_host());
  session.membership().set_plan({.lanes = size(), .strategy = "own loop"});
}

void World::Impl::connect(collective::Communicator& communicator, const std::string& host) {
  connected = &communicator;
  own_negotiation.emplace(communicator);
  channels_opened = 0;
  if (communicator.rank() != 0) reports.reset();  // somebody else is the chief
  find_neighbours(host);
}

void World::Impl::disconnect() {
  for (const auto& reduce : reduces) reduce->give_up();
  reduces.clear();
  own_negotiation.reset();
  connected = nullptr;
}

void World::Impl::abort_channels(const std::string& reason) {
  const MutexLock lock(mutex);
  for (Channel* channel : channels) channel->ranks().abort(reason);
}

collective::Communicator& World::Impl::ranks() const {
  if (connected == nullptr) {
    fail<InvalidArgument>(
        "this process has come to a job that is at work already: what it does with the others belongs into the loop "
        "that "
        "dist::elastic runs");
  }
  return *connected;
}

Negotiation& World::Impl::negotiation() {
  ranks();
  return *own_negotiation;
}

bool World::Impl::newcomer() const {
  return job && connected == nullptr && (job->session().learner() || job->session().view().view > 1);
}

/// From where the members listen, since there is nobody to ask yet.
void World::Impl::guess_neighbours() {
  const cluster::ViewInfo view = job->session().view();
  const std::string& host = view.workers[job->rank()].address.host;
  local_size = 0;
  for (Rank other = 0; other < view.workers.size(); ++other) {
    if (view.workers[other].address.host != host) continue;
    if (other == job->rank()) local_rank = local_size;
    ++local_size;
  }
}

World::Impl::~Impl() {
  if (job) job->session().on_failure(nullptr);
  for (const auto& reduce : reduces) reduce->give_up();
}

World::~World() = default;

Rank World::rank() const { return impl_->connected ? impl_->connected->rank() : impl_->job->rank(); }

std::uint32_t World::size() const { return impl_->connected ? impl_->connected->size() : impl_->job->workers(); }

Rank World::local_rank() const { return impl_->local_rank; }

std::uint32_t World::local_size() const { return impl_->local_size; }

Job* World::job() { return impl_->job.get(); }

collective::Communicator& World::communicator() { return impl_->ranks(); }

void World::Impl::find_neighbours(const std::string& host) {
  Sha256 hash;
  hash.add(as_bytes(host));
  const std::string digest = hash.hex();
  collective::Communicator& group = ranks();
  std::vector<char> all(digest.size() * group.size());
  group.run(collective::all_gather(collective::ConstArray(DType::kU8, digest.data(), digest.size()),
                                   collective::Array(DType::kU8, all.data(), all.size())));
  local_size = 0;
  for (Rank other = 0; other < group.size(); ++other) {
    if (digest != std::string_view(all.data() + other * digest.size(), digest.size())) continue;
    if (other == group.rank()) local_rank = local_size;
    ++local_size;
  }
}

void World::Impl::report_step(Step made) {
  steps = std::max(steps, made);
  if (job) job->session().membership().report({.clock = steps});
}

void World::Impl::report_averages(const std::map<std::string, double>& means) {
  if (!job || !job->chief()) return;
  cluster::WorkDone work{.clock = steps};
  for (const auto& [name, value] : means) {
    if (!name.empty()) work.averages[name] = value;
  }
  job->session().membership().report(work);
}

void World::Impl::report(const std::map<std::string, double>& values, Step step) {
  for (const auto& [name, value] : values) {
    if (!name.empty() && std::ranges::count(kFieldsOfRows, name) == 0) continue;
    fail<InvalidArgument>("report: a value cannot be called '{}': choose another name", name);
  }
  if (!job) return;
  report_step(step);
  if (!job->chief()) return;
  report_averages(values);
  for (const auto& [name, value] : values) reported[name] = value;
  const auto& folder = job->session().folder();
  if (!reports && folder) reports.emplace(*folder, step);
  if (reports) reports->add(values, step);
}

void World::Impl::post_result() {
  if (!job->chief()) return;
  nlohmann::json result{{"steps", steps}, {"strategy", "own loop"}};
  if (!state_sha256.empty()) result["state_sha256"] = state_sha256;
  if (!reported.empty()) result["metrics"] = reported;
  if (stop_agreed || job->stop_requested()) result["stopped_because"] = "asked to stop";
  if (const auto& folder = job->session().folder()) {
    write_file_atomically(folder->result(), as_bytes(result.dump(2) + "\n"));
  }
  job->session().membership().post_result(result);
}

bool World::should_stop() {
  const bool asked = impl_->job && impl_->job->stop_requested();
  const torch::Tensor all = all_reduce(torch::tensor(asked ? 1 : 0, torch::kInt32),
                                       {.op = ReduceOp::kMax, .compression = {}, .name = "should_stop"});
  impl_->stop_agreed = all.item<int>() > 0;
  return impl_->stop_agreed;
}

void World::report(const std::map<std::string, double>& values, Step step) { impl_->report(values, step); }

torch::Tensor World::all_reduce(const torch::Tensor& tensor, const ReduceOptions& options) {
  return all_reduce(std::vector{tensor}, options).front();
}

void World::all_reduce_(torch::Tensor tensor, const ReduceOptions& options) {
  all_reduce_(std::vector{std::move(tensor)}, options);
}

std::vector<torch::Tensor> World::all_reduce(const std::vector<torch::Tensor>& tensors, const ReduceOptions& options) {
  return impl_->reduce(tensors, {}, options, /*in_background=*/false)->wait();
}

void World::all_reduce_(const std::vector<torch::Tensor>& tensors, const ReduceOptions& options) {
  impl_->reduce(tensors, tensors, options, /*in_background=*/false)->wait();
}

Handle World::all_reduce_async(const torch::Tensor& tensor, const ReduceOptions& options) {
  return all_reduce_async(std::vector{tensor}, options);
}

Handle World::all_reduce_async_(torch::Tensor tensor, const ReduceOptions& options) {
  return all_reduce_async_(std::vector{std::move(tensor)}, options);
}

Handle World::all_reduce_async(const std::vector<torch::Tensor>& tensors, const ReduceOptions& options) {
  return Handle(impl_->reduce(tensors, {}, options, /*in_background=*/true));
}

Handle World::all_reduce_async_(const std::vector<torch::Tensor>& tensors, const ReduceOptions& options) {
  return Handle(impl_->reduce(tensors, tensors, options, /*in_background=*/true));
}

std::shared_ptr<FusedReduce> World::Impl::reduce(const std::vector<torch::Tensor>& in,
                                                 const std::vector<torch::Tensor>& out, const ReduceOptions& options,
                                                 bool in_background) {
  std::erase_if(reduces, [](const auto& reduce) { return reduce->done(); });
  auto started = std::make_shared<FusedReduce>(in, out, options);
  started->start(negotiation(), in_background);
  if (in_background) reduces.push_back(started);
  return started;
}

torch::Tensor World::all_gather(const torch::Tensor& tensor, const std::string& name) {
  torch::NoGradGuard no_grad;
  check_defined(tensor, "all_gather");
  const Rows rows(tensor);
  const std::size_t row_bytes = rows.bytes(tensor);
  Negotiation::Outcome outcome = impl_->negotiation().negotiate({.kind = Kind::kAllGather,
                                                                 .dtype = requested_type(tensor),
                                                                 .count = static_cast<std::uint64_t>(rows.count),
                                                                 .row_bytes = row_bytes},
                                                                name);
  std::vector<std::size_t> counts;
  std::int64_t total = 0;
  for (const OpRequest& each : outcome.all()) {
    const std::uint64_t theirs = each.joined() ? 0 : each.count;
    counts.push_back(theirs * row_bytes);
    total += static_cast<std::int64_t>(theirs);
  }
  torch::Tensor all = rows.make(total, tensor);
  const torch::Tensor mine = on_host(tensor);
  impl_->ranks().run(collective::all_gather(array_of(mine), array_of(all), std::move(counts)));
  return all.to(tensor.device());
}

torch::Tensor World::broadcast(const torch::Tensor& tensor, Rank root, const std::string& name) {
  check_defined(tensor, "broadcast");
  torch::Tensor copy = tensor.detach().clone();
  broadcast_(copy, root, name);
  return copy;
}

void World::broadcast_(torch::Tensor tensor, Rank root, const std::string& name) {
  torch::NoGradGuard no_grad;
  check_defined(tensor, "broadcast");
  if (root >= size()) fail<InvalidArgument>("broadcast from rank {}: there are {} ranks", root, size());
  impl_->broadcasts = true;
  Negotiation::Outcome outcome =
      impl_->negotiation().negotiate({.kind = Kind::kBroadcast,
                                      .dtype = requested_type(tensor),
                                      .root = root,
                                      .count = static_cast<std::uint64_t>(tensor.numel()),
                                      .row_bytes = static_cast<std::uint64_t>(tensor.element_size())},
                                     name);
  if (outcome.all()[root].joined()) {
    fail<InvalidArgument>("broadcast '{}' from rank {}, which has joined and has nothing to say: name another root",
                          name, root);
  }
  broadcast_tensor(impl_->ranks(), std::move(tensor), root);
}

World::Received World::all_to_all(const torch::Tensor& tensor, std::vector<std::int64_t> rows_to,
                                  const std::string& name) {
  torch::NoGradGuard no_grad;
  check_defined(tensor, "all_to_all");
  const Rows rows(tensor);
  const auto ranks = static_cast<std::int64_t>(size());
  if (rows_to.empty() && rows.count % ranks == 0) rows_to.assign(size(), rows.count / ranks);
  std::int64_t sent = 0;
  for (const std::int64_t each : rows_to) sent += each;
  if (static_cast<std::int64_t>(rows_to.size()) != ranks || sent != rows.count ||
      std::ranges::any_of(rows_to, [](std::int64_t each) { return each < 0; })) {
    fail<InvalidArgument>("all_to_all: {} rows cannot be dealt to {} ranks so: give how many rows go to each",
                          rows.count, ranks);
  }
  const std::size_t row_bytes = rows.bytes(tensor);
  impl_->negotiation()
      .negotiate({.kind = Kind::kAllToAll, .dtype = requested_type(tensor), .row_bytes = row_bytes}, name)
      .contributors();
  const std::vector<std::size_t> to_rows(rows_to.begin(), rows_to.end());
  const std::vector<std::size_t> all_rows = gather_row_counts(impl_->ranks(), to_rows);
  std::vector<std::size_t> to;
  std::vector<std::size_t> from;
  Received received;
  std::int64_t total = 0;
  for (Rank other = 0; other < size(); ++other) {
    const std::size_t theirs = all_rows[other * size() + rank()];
    to.push_back(to_rows[other] * row_bytes);
    from.push_back(theirs * row_bytes);
    total += received.rows.emplace_back(static_cast<std::int64_t>(theirs));
  }
  torch::Tensor arrived = rows.make(total, tensor);
  const torch::Tensor mine = on_host(tensor);
  impl_->ranks().run(collective::all_to_all(array_of(mine), array_of(arrived), std::move(to), std::move(from)));
  received.tensor = arrived.to(tensor.device());
  return received;
}

void World::barrier() { impl_->negotiation().negotiate({.kind = Kind::kBarrier}, {}).contributors(); }

std::map<std::string, double> World::average(const std::map<std::string, double>& metrics, double weight) {
  std::string names;
  std::vector<double> sums{weight};
  for (const auto& [name, value] : metrics) {
    names += name + " ";
    sums.push_back(value * weight);
  }
  const torch::Tensor all =
      all_reduce(torch::tensor(sums, torch::kFloat64), {.op = ReduceOp::kSum, .compression = {}, .name = names});
  std::map<std::string, double> means;
  std::int64_t at = 1;
  for (const auto& [name, value] : metrics) means[name] = all[at++].item<double>() / all[0].item<double>();
  impl_->report_averages(means);
  return means;
}

double World::average(double value, double weight, const std::string& name) {
  return average({{name, value}}, weight).begin()->second;
}

Rank World::join() {
  // Each channel is served by a thread of its own: nobody knows on which of them the others will speak next.
  std::vector<Channel*> channels;
  {
    const MutexLock lock(impl_->mutex);
    channels = impl_->channels;
  }
  std::vector<std::exception_ptr> problems(channels.size());
  {
    std::vector<std::jthread> servants;
    for (std::size_t i = 0; i < channels.size(); ++i) {
      servants.emplace_back([channel = channels[i], &problem = problems[i]] {
        try {
          channel->negotiation().join();
        } catch (...) {
          problem = std::current_exception();
        }
      });
    }
    try {
      const Rank last = impl_->negotiation().join();
      servants.clear();
      if (std::ranges::all_of(problems, [](const auto& problem) { return problem == nullptr; })) return last;
    } catch (const std::exception& problem) {
      for (Channel* channel : channels)
        channel->ranks().abort(problem.what());  // else their servants might wait for long
      throw;
    }
  }
  for (const std::exception_ptr& problem : problems) {
    if (problem) std::rethrow_exception(problem);
  }
  return rank();
}

void World::finish() {
  if (impl_->over) return;
  for (const auto& reduce : impl_->reduces) reduce->wait();
  // Nobody goes while somebody may still read its memory. Who hears of the end of others here is through as well: they
  // went because all had arrived.
  try {
    barrier();
  } catch (const PeerLost& gone) {
    log_debug("peers_left_early", "peers had left before the last barrier ended here", {{"reason", gone.what()}});
  }
  if (!impl_->job) return;
  impl_->post_result();
  impl_->job->leave();
}

Channel::Channel(World::Impl& world, const std::string& name)
    : world_(world), ranks_(open(world_, name)), negotiation_(*ranks_) {
  {
    const MutexLock lock(world_.mutex);
    world_.channels.push_back(this);
  }
  if (!world_.job) return;  // failures that were reported while it connected
  if (const std::string reason = world_.job->session().view_failure(); !reason.empty()) ranks_->abort(reason);
}

Channel::~Channel() {
  const MutexLock lock(world_.mutex);
  std::erase(world_.channels, this);
}

std::unique_ptr<collective::Communicator> Channel::open(World::Impl& world, const std::string& name) {
  std::vector<Rank> everybody(world.ranks().size());
  std::iota(everybody.begin(), everybody.end(), Rank{0});
  return world.ranks().subgroup(fmt::format("{} {}", name, ++world.channels_opened), everybody);
}

std::unique_ptr<World> init() { return std::make_unique<World>(Job::join()); }

}  // namespace trireme::dist
