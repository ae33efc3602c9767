#include "trireme/elastic.h"

#include "base/error.h"
#include "base/log.h"
#include "dist/state.h"
#include "elastic/peer_failure.h"
#include "job/termination.h"

namespace trireme::dist {

/// A loop in one view after the other.
class ElasticLoop {
 public:
  ElasticLoop(World& world, State& state, const std::function<void()>& loop)
      : world_(*world.impl_), state_(*state.impl_), loop_(loop) {
    if (!state_.is_of(world_)) fail<InvalidArgument>("the state was made for another world");
  }

  /// See `elastic`. Whatever goes wrong, the others hear of it.
  bool run() {
    try {
      check_optimizers();
      const bool done = run_views();
      world_.over = true;
      return done;
    } catch (const std::exception& problem) {
      tell_failure(job_, problem);
      throw;
    }
  }

 private:
  enum class Ending { kDone, kRegroup };

  void check_optimizers() const {
    if (world_.optimizers == (state_.has_optimizer() ? 1u : 0u)) return;
    fail<InvalidArgument>("a DistributedOptimizer of this world is not in the state: add it, so that it goes on too");
  }

  bool run_views() {
    job_.membership().set_plan(state_.plan());
    for (;;) {
      try {
        if (termination_requested()) return leave();
        if (job_.learner() && !job_.regroup("is ready to take part")) return false;
        enter_view();
        if (run_loop() == Ending::kRegroup) {
          leave_view();
          if (termination_requested()) return leave();
          if (!job_.regroup("others want to come or go")) return true;
          continue;
        }
        conclude();
        if (job_.chief()) return end();
        leave_view();
        if (!job_.regroup("all steps are made", /*done=*/true)) return true;
      } catch (const std::exception& problem) {
        if (!is_peer_failure(problem)) throw;
        if (!recover(problem.what())) return true;
      }
    }
  }

  void enter_view() {
    if (world_.connected == nullptr) world_.connect(job_.ranks(), World::this_host());
    state_.enter_view();
  }

  void leave_view() {
    state_.leave_view();
    world_.disconnect();
  }

  Ending run_loop() {
    try {
      loop_();
    } catch (const LoopLeft& left) {
      return left.stop ? Ending::kDone : Ending::kRegroup;
    }
    return Ending::kDone;
  }

  /// All ranks' loops have returned, or will be called again: nobody goes while somebody needs it.
  void conclude() {
    state_.settle();
    world_.ranks().run(collective::barrier());
    state_.save_last();
  }

  /// The chief's word that the job is over.
  bool end() {
    job_.membership().flush();
    world_.steps = state_.step();
    world_.state_sha256 = state_.hash();
    world_.post_result();
    job_.membership().leave();
    return true;
  }

  /// This process was asked to go: the others take over its lanes.
  bool leave() {
    log_info("worker_leaving", "leaves the job because of a signal", {{"step", state_.step()}});
    job_.membership().leave();
    return false;
  }

  /// Somebody is gone. Returns false if the others have ended the job without this process.
  bool recover(const std::string& reason) {
    log_warn("recovery_started", "leaves the view to continue in another one",
             {{"step", state_.step()}, {"reason", reason}});
    world_.abort_channels(reason);
    leave_view();
    return regroup_after_failure(job_, reason);
  }

  World::Impl& world_;
  JobSession& job_ = world_.job->session();
  State::Impl& state_;
  const std::function<void()>& loop_;
};

bool elastic(World& world, State& state, const std::function<void()>& loop) {
  const SigtermLeaves while_it_runs;
  return ElasticLoop(world, state, loop).run();
}

// ---- State, as users see it.

State::State(World& world, const data::SamplerConfig& samples) : impl_(std::make_unique<Impl>(*world.impl_, samples)) {}

State::~State() = default;

State& State::add(const torch::nn::Module& module, const std::string& name) {
  impl_->add_module(module, name);
  return *this;
}

State& State::add(DistributedOptimizer& optimizer) {
  impl_->add_optimizer(*optimizer.impl_);
  return *this;
}

State& State::add(torch::optim::Optimizer& optimizer, const std::string& name) {
  impl_->add_optimizer(optimizer, name);
  return *this;
}

State& State::add(const std::string& name, const torch::Tensor& tensor) {
  impl_->add_value(name, tensor_item(name, tensor));
  return *this;
}

State& State::add(const std::string& name, const at::Generator& generator) {
  impl_->add_value(name, generator_item(generator));
  return *this;
}

State& State::add(const std::string& name, std::string& text) {
  return add(
      name, [&text] { return text; }, [&text](const std::string& saved) { text = saved; });
}

State& State::add(const std::string& name, std::function<std::string()> save,
                  std::function<void(const std::string&)> load) {
  impl_->add_value(name, bytes_item(std::move(save), std::move(load)));
  return *this;
}

State& State::add_memory(const std::string& name, void* memory, std::size_t bytes) {
  impl_->add_value(name, memory_item(name, memory, bytes));
  return *this;
}

State& State::save_every(Step steps, const CheckpointOptions& options) {
  impl_->save_every(steps, options);
  return *this;
}

Step State::step() const { return impl_->step(); }

std::uint64_t State::epoch() const { return impl_->sampler().epoch_of(impl_->step()); }

const data::Sampler& State::sampler() const { return impl_->sampler(); }

State::Lanes State::lanes() {
  impl_->begin_step();
  return Lanes(impl_.get());
}

void State::next_step() { impl_->next_step(); }

void State::commit() { impl_->commit(); }

State::Lanes::Iterator State::Lanes::begin() { return {state_, state_->next_lane()}; }

State::Lanes::Iterator& State::Lanes::Iterator::operator++() {
  lane_ = state_->next_lane();
  return *this;
}

}  // namespace trireme::dist
