#pragma once

// Training loops of your own that go on when processes come, go and die. Compared with the plain loop of dist.h: a
// State names what must survive, batches come in lanes, and `dist::elastic` runs the loop.
//
//   dist::State state(*world, {.samples = data.train->size(), .batch = 64, .lanes = 8, .seed = 1});
//   state.add(*net).add(optimizer).add("best", best).save_every(500);
//   dist::elastic(*world, state, [&] {
//     while (state.step() < steps) {
//       for (const dist::LaneBatch& lane : state.lanes()) loss_of(*net, lane.indices).backward();
//       optimizer.clip_norm(1.0);
//       optimizer.step();
//     }
//   });
//   world->finish();
//
// The whole program: examples/own_loop.cc. What happens when somebody dies: docs/survival.md.

#include <ATen/core/Generator.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>
#include <torch/types.h>

#include "trireme/checkpoint.h"
#include "trireme/dist.h"
#include "trireme/sampler.h"

namespace trireme::dist {

/// One lane of the present step: a fixed slice of its batch, whoever computes it.
struct LaneBatch {
  Lane lane = 0;
  std::vector<std::uint64_t> indices;  ///< of the samples in it, in the order in which they are read; never empty
};

/// All that a training loop of your own goes on from: modules, optimizer, position in the data, random numbers and
/// values of yours. It is the same on all ranks after each step.
///
/// With a DistributedOptimizer a step is made when `optimizer.step()` has returned: if somebody dies before that, the
/// others make this step again, and no other. Without one the loop calls `next_step` and `commit` itself, and goes back
/// to the last `commit`.
///
/// The gradient is the mean over the samples of a step: the sum over lanes of the gradient of each lane's mean loss,
/// weighted by its samples, added in the order of lanes. So parameters have the same bits on any number of ranks (with
/// as many threads for torch, and without compression), if `loss.backward()` is called in each lane, and nothing else
/// depends on `world.rank()`. Buffers of the modules (batch-norm statistics) become the mean over lanes.
///
/// Torch's default random numbers are seeded from (seed, step, lane) within a lane, and from (seed, step) between them.
/// Use it on the thread that uses `world`. What is added must outlive it.
class State {
 public:
  /// The sampler deals `samples.lanes` lanes to whoever is there; 0 = as many as the job had workers at its start (then
  /// it can be resumed with that number only). There are never more workers than lanes; others wait in reserve. Throws
  /// InvalidArgument as data::Sampler, and if there are fewer lanes than workers at the start.
  State(World& world, const data::SamplerConfig& samples);
  ~State();

  /// Parameters and buffers of a module; a name is needed for all modules but one. Throws InvalidArgument, as all
  /// below, if the name is taken.
  State& add(const torch::nn::Module& module, const std::string& name = {});

  /// The optimizer that makes the steps; there can be one. Its inner optimizer is one of torch's SGD, Adam, AdamW,
  /// RMSprop and Adagrad; of its settings, learning rates are kept. Throws InvalidArgument otherwise.
  State& add(DistributedOptimizer& optimizer);

  /// An optimizer of the same classes in a loop without DistributedOptimizer; named as modules are.
  State& add(torch::optim::Optimizer& optimizer, const std::string& name = {});

  /// A number of yours that is the same on all ranks.
  template <typename Number>
  requires(std::is_arithmetic_v<Number> && !std::is_const_v<Number>) State& add(const std::string& name,
                                                                                Number& number) {
    return add_memory(name, &number, sizeof(Number));
  }

  /// A tensor whose values change, not its shape; a generator of random numbers that all ranks use alike; a text.
  State& add(const std::string& name, const torch::Tensor& tensor);
  State& add(const std::string& name, const at::Generator& generator);
  State& add(const std::string& name, std::string& text);

  /// Anything else: `save` returns it as bytes, `load` takes these back.
  State& add(const std::string& name, std::function<std::string()> save, std::function<void(const std::string&)> load);

  /// Writes a checkpoint to the run's folder, in the background, after every so many steps and at the end; a job that
  /// is started there again (`trireme resume`), with any number of workers, goes on from the newest. Without it nothing
  /// is saved.
  State& save_every(Step steps, const CheckpointOptions& options = {});

  Step step() const;  ///< how many are made: the number of the present one
  std::uint64_t epoch() const;
  const data::Sampler& sampler() const;

  class Lanes;
  /// This rank's lanes of the present step, one after the other; compute each in turn, and all of them. Between two
  /// steps this is also where the loop is left if others want to come or go, or the job was asked to stop: by an
  /// exception that is no std::exception, and that your program lets pass. Throws InvalidArgument outside of
  /// `elastic`, or if the step before was not made.
  Lanes lanes();

  /// Without a DistributedOptimizer: the step is made, the sampler goes on.
  void next_step();

  /// Without a DistributedOptimizer: keeps a copy of the whole state, to which all go back when somebody is lost. Here
  /// the loop is left as it is in `lanes`. A collective call.
  void commit();

 private:
  friend class ElasticLoop;
  State& add_memory(const std::string& name, void* memory, std::size_t bytes);

  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// `for (const dist::LaneBatch& lane : state.lanes())`. Goes through once.
class State::Lanes {
 public:
  class Iterator {
   public:
    const LaneBatch& operator*() const { return *lane_; }
    const LaneBatch* operator->() const { return lane_; }
    Iterator& operator++();  ///< ends the lane, begins the next
    bool operator==(const Iterator& other) const { return lane_ == other.lane_; }

   private:
    friend class Lanes;
    Iterator(Impl* state, const LaneBatch* lane) : state_(state), lane_(lane) {}
    Impl* state_;
    const LaneBatch* lane_;  // null: no more
  };

  Iterator begin();
  Iterator end() { return {state_, nullptr}; }

 private:
  friend class State;
  explicit Lanes(Impl* state) : state_(state) {}
  Impl* state_;
};

/// Runs `loop` until it returns, in one view of the job after the other: when somebody is lost, or comes, `loop` is
/// left by an exception, all take the furthest state, and `loop` is called again, to go on from `state.step()`. A
/// process that comes later takes part from its own call on. So `loop` holds everything that needs the others,
/// evaluation included, and `world.rank()` and `world.size()` change between two calls of it.
///
/// What your loop changes after `optimizer.step()` belongs to that step; it is lost if somebody dies in a call with the
/// others that comes before it. Compute means that are part of the state before `optimizer.step()`.
///
/// Returns when all ranks' loops have returned; what needs the others has no place behind it. Returns true if all steps
/// are made, or the job was asked to stop (`trireme stop`, Ctrl-C), which leaves the loop too; false if this process is
/// not needed any more: it was asked to leave (SIGTERM, while this runs), or came when the job was over. Throws
/// InvalidArgument, Corrupt or IoError (the checkpoint to go on from), what `loop` throws, and PeerLost if the job has
/// failed.
bool elastic(World& world, State& state, const std::function<void()>& loop);

}  // namespace trireme::dist
