#pragma once

// Tensor parallelism: the matrices of a layer are divided among processes (Shoeybi et al. 2019, Korthikanti et al.
// 2022), and the result does not depend on among how many.
//
//     trireme::parallel::TensorGroup group(job->ranks(), 4);  // four tensor lanes, whoever computes them
//     ColumnParallelLinear widen(group, torch::nn::Linear(256, 1024));
//     RowParallelLinear narrow(group, torch::nn::Linear(1024, 256));
//     torch::Tensor y = narrow(each_lane(widen(copy_to_lanes(group, x)), torch::relu));
//
// Why the bits stay: every divided dimension is always cut into the same number of blocks, the tensor lanes. Each lane
// is computed by itself, in the same shapes, wherever it is; what is summed over lanes is summed along the summation
// tree. So 1, 2 and 4 processes compute the same with 4 lanes. The number of threads per process has to be the same.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/nn/pimpl.h>
#include <torch/types.h>

#include "trireme/collective.h"
#include "trireme/parameter_slice.h"
#include "trireme/types.h"

namespace trireme::parallel {

/// The elements [begin, end) of a dimension.
struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  std::int64_t size() const { return end - begin; }
  bool operator==(const Range&) const = default;
};

/// What a process has exchanged with its group.
struct TensorTraffic {
  std::uint64_t operations = 0;
  std::uint64_t bytes = 0;  ///< of the whole tensors gathered or scattered; what is reduced for all counts twice
};

/// One tensor for each tensor lane of this process, in lane order; of the same shape but for blocks that do not divide.
using LaneTensors = std::vector<torch::Tensor>;

/// The processes that divide a model's matrices among them, and into how many tensor lanes.
///
/// Borrowed by layers and by what autograd keeps of their results: it must outlive both. Not thread-safe. All processes
/// must make the same calls in the same order, forward and backward: a process that does something else is named on all
/// (InvalidArgument, with the label of this process's call), one that died is PeerLost, a silent one Timeout.
class TensorGroup {
 public:
  /// Alone, with so many tensor lanes. One lane: plain layers, computed as LibTorch does. Throws InvalidArgument for 0.
  explicit TensorGroup(Lane lanes = 1);

  /// The processes of `ranks`, which must outlive the group. Each has one subtree of `lanes`; 0 = a lane for each.
  /// Throws InvalidArgument, with the nearest possible number, unless they divide `lanes`.
  explicit TensorGroup(collective::Communicator& ranks, Lane lanes = 0);

  TensorGroup(const TensorGroup&) = delete;
  TensorGroup& operator=(const TensorGroup&) = delete;

  Rank rank() const { return rank_; }
  std::uint32_t size() const { return static_cast<std::uint32_t>(dealt_.size()); }
  Lane lanes() const { return lanes_; }
  LaneRange lanes_of(Rank rank) const { return dealt_.at(rank); }
  LaneRange mine() const { return dealt_[rank_]; }
  bool plain() const { return lanes_ == 1; }  ///< nothing is divided

  /// Returns which of `whole` elements belong to a lane: sizes differ by at most one, the larger ones first.
  Range block(std::int64_t whole, Lane lane) const;

  /// Returns those of all lanes of a process; by default this one.
  Range part(std::int64_t whole, Rank rank) const;
  Range part(std::int64_t whole) const { return part(whole, rank_); }

  /// Returns how large each block of this process's lanes is: what torch::split_with_sizes takes.
  std::vector<std::int64_t> block_sizes(std::int64_t whole) const;

  /// Throws InvalidArgument, with the nearest number of lanes that does, unless the lanes divide `count` things such as
  /// `12 heads`.
  void check_divides(std::int64_t count, const std::string& things) const;

  /// From now on random numbers (dropout) follow from `seed`, which must be the same on all processes. Without it they
  /// come from torch's generator, which must then be in the same state on all of them.
  void seed(std::uint64_t seed);

  /// Returns the seed of the next random tensor: the same on all processes.
  std::uint64_t next_seed();

  // Data motion on tensors without gradients. `label` says in messages which layer asks.

  /// Returns the sum (or maximum, ...) of every process's `partial`, each the result of its own lanes.
  torch::Tensor all_reduce(const torch::Tensor& partial, collective::ReduceOp op, const std::string& label);

  /// Returns this process's part of that sum along `dim`.
  torch::Tensor reduce_scatter(const torch::Tensor& partial, std::int64_t dim, const std::string& label);

  /// Returns the parts of all processes along `dim`, `whole` in all.
  torch::Tensor all_gather(const torch::Tensor& part, std::int64_t dim, std::int64_t whole, const std::string& label);

  /// Returns how long a dimension is of which this process has `part`: asks the others. For tensors that are divided
  /// along positions, whose whole length no process knows from its part.
  std::int64_t whole_length(std::int64_t part, const std::string& label);

  /// Returns the sum of this process's lanes alone, along the tree. 16-bit numbers are summed as 32-bit ones, and stay
  /// so: the whole sum is rounded once.
  torch::Tensor sum_own(const LaneTensors& lanes) const;

  const TensorTraffic& traffic() const { return traffic_; }

 private:
  void run(collective::Operation operation, std::uint64_t bytes, const std::string& label);

  collective::Communicator* ranks_ = nullptr;
  Rank rank_ = 0;
  Lane lanes_ = 1;
  std::vector<LaneRange> dealt_;  // the lanes of each process
  std::optional<std::uint64_t> seed_;
  std::uint64_t drawn_ = 0;  // seeds, since the last call of seed()
  TensorTraffic traffic_;
};

// From whole tensors to lanes and back. Each of these is the gradient of another one.

/// `x`, the same on all processes, for every lane. Backward: the sum over all lanes.
LaneTensors copy_to_lanes(TensorGroup& group, const torch::Tensor& x, const std::string& label = "copy_to_lanes");

/// The sum over all lanes, the same on all processes. Backward: the gradient, for every lane.
torch::Tensor sum_lanes(TensorGroup& group, const LaneTensors& lanes, const std::string& label = "sum_lanes");

/// The whole along `dim`, of which each process has its part (of `whole` elements), for every lane. Backward: the sum
/// over all lanes, each process its part.
LaneTensors gather_to_lanes(TensorGroup& group, const torch::Tensor& part, std::int64_t dim, std::int64_t whole,
                            const std::string& label = "gather_to_lanes");

/// The sum over all lanes, plus `bias` (may be undefined) of the last dimension; each process gets its part along
/// `dim`. Backward: the whole gradient, for every lane.
torch::Tensor sum_lanes_to_parts(TensorGroup& group, const LaneTensors& lanes, const torch::Tensor& bias,
                                 std::int64_t dim, const std::string& label = "sum_lanes_to_parts");

/// The blocks of all lanes along `dim`, `whole` in all, one after the other: for what all processes then compute alike.
/// Backward: each lane its block.
torch::Tensor join_lanes(TensorGroup& group, const LaneTensors& lanes, std::int64_t dim, std::int64_t whole,
                         const std::string& label = "join_lanes");

/// This process's part of `x`, which is the same on all. Backward: the whole gradient.
torch::Tensor take_part(TensorGroup& group, const torch::Tensor& x, std::int64_t dim,
                        const std::string& label = "take_part");

/// The whole, of which each process has its part: for what all then compute alike. Backward: this process's part.
torch::Tensor gather_parts(TensorGroup& group, const torch::Tensor& part, std::int64_t dim, std::int64_t whole,
                           const std::string& label = "gather_parts");

/// The lanes of this process one after the other along `dim`: its part. Nothing is exchanged. Backward: each lane gets
/// its block as memory of its own, so that what it computes with it does not depend on how many lanes are here.
torch::Tensor join_own_lanes(const LaneTensors& lanes, std::int64_t dim);

/// The blocks of this process's lanes of its own part: nothing is exchanged.
LaneTensors split_part(TensorGroup& group, const torch::Tensor& part, std::int64_t dim, std::int64_t whole);

/// Applies a function to each lane.
LaneTensors each_lane(LaneTensors lanes, const std::function<torch::Tensor(const torch::Tensor&)>& function);

/// Sets numbers to zero with the given probability and scales the others; nothing happens for 0. `lanes` are blocks of
/// a whole tensor along `dim`, of `whole` elements. Which numbers, depends on the seed (TensorGroup::seed) and their
/// place in the whole, not on who computes them, nor on the number of lanes.
LaneTensors dropout(TensorGroup& group, LaneTensors lanes, std::int64_t dim, std::int64_t whole, double probability);

/// The same for this process's part along `dim`: sequence parallelism.
torch::Tensor dropout(TensorGroup& group, const torch::Tensor& part, std::int64_t dim, std::int64_t whole,
                      double probability);

// Layers. Each is made from a whole one, whose initial values come from torch's generator as always, and keeps its
// slice: so they do not depend on the number of processes. Parameters keep their names.

/// A layer that holds slices of its parameters.
class SlicedModule {
 public:
  virtual ~SlicedModule() = default;

  /// By the names of this module's own parameters; those that are not here are whole.
  const std::map<std::string, ParameterSlice>& slices() const { return slices_; }

 protected:
  std::map<std::string, ParameterSlice> slices_;
};

/// Returns the part of `whole`, a parameter or its gradient, that `slice` describes: a copy.
torch::Tensor slice_of(const torch::Tensor& whole, const ParameterSlice& slice);

/// Returns the slices of all parameters of `module` that are not whole, by name as in named_parameters().
std::map<std::string, ParameterSlice> parameter_slices(const torch::nn::Module& module);

/// Returns all parameters of `module` as they are in the whole model, by name, gathered from all processes, which call
/// this together.
std::map<std::string, torch::Tensor> gather_parameters(TensorGroup& group, const torch::nn::Module& module);

/// y = x Wᵀ + b, divided by outputs: lane after lane has its columns of y. `pieces` equal matrices may stand one below
/// the other (query, key, value), of which a lane has its part of each.
class ColumnParallelLinearImpl : public torch::nn::Module, public SlicedModule {
 public:
  ColumnParallelLinearImpl(TensorGroup& group, const torch::nn::Linear& whole, std::int64_t pieces = 1);

  /// Per lane … × inputs -> per lane … × its outputs (pieces × its part of each).
  LaneTensors forward(const LaneTensors& x);

  torch::Tensor weight, bias;  ///< bias may be undefined

 private:
  TensorGroup& group_;
  std::int64_t pieces_;
  std::int64_t outputs_;  // of the whole, per piece
};
TORCH_MODULE(ColumnParallelLinear);

/// y = x Wᵀ + b, divided by inputs: each lane has its columns of x, and the products are summed over all lanes. With
/// a first layer of it the samples' features can be divided, too: no process ever has a whole row.
class RowParallelLinearImpl : public torch::nn::Module, public SlicedModule {
 public:
  RowParallelLinearImpl(TensorGroup& group, const torch::nn::Linear& whole, std::string label = "row_parallel");

  /// Per lane … × its inputs -> … × outputs, the same on all processes.
  torch::Tensor forward(const LaneTensors& x);

  /// The same from this process's features, … × part(inputs).
  torch::Tensor forward_features(const torch::Tensor& features);

  /// The same result, divided along `dim`: each process has its part.
  torch::Tensor forward_to_parts(const LaneTensors& x, std::int64_t dim);

  torch::Tensor weight, bias;  ///< bias may be undefined; it is whole

 private:
  LaneTensors products(const LaneTensors& x);

  TensorGroup& group_;
  std::int64_t inputs_;  // of the whole
  std::string label_;
};
TORCH_MODULE(RowParallelLinear);

/// A convolution divided by output channels.
class ColumnParallelConv2dImpl : public torch::nn::Module, public SlicedModule {
 public:
  /// Throws InvalidArgument if the convolution has groups or pads by anything but a number of zeros.
  ColumnParallelConv2dImpl(TensorGroup& group, const torch::nn::Conv2d& whole);

  /// Per lane batch × channels × rows × columns -> per lane its output channels: join_lanes(…, 1, …) for all.
  LaneTensors forward(const LaneTensors& x);

  torch::Tensor weight, bias;  ///< bias may be undefined

 private:
  TensorGroup& group_;
  torch::nn::Conv2dOptions options_;
};
TORCH_MODULE(ColumnParallelConv2d);

/// An embedding divided by rows: the vocabulary, which the lanes need not divide.
class VocabularyParallelEmbeddingImpl : public torch::nn::Module, public SlicedModule {
 public:
  VocabularyParallelEmbeddingImpl(TensorGroup& group, const torch::nn::Embedding& whole,
                                  std::string label = "embedding");

  /// batch × length of tokens, the same on all -> batch × length × width, the same on all.
  torch::Tensor forward(const torch::Tensor& tokens);

  /// The same result, divided along positions (dimension 1).
  torch::Tensor forward_to_parts(const torch::Tensor& tokens);

  /// The last layer with the same weights: per lane … × width -> per lane … × its part of the vocabulary.
  LaneTensors logits(const LaneTensors& x);

  std::int64_t vocabulary() const { return vocabulary_; }

  torch::Tensor weight;

 private:
  TensorGroup& group_;
  std::int64_t vocabulary_;
  std::string label_;
};
TORCH_MODULE(VocabularyParallelEmbedding);

/// The mean cross entropy of `logits` (per lane samples × its part of `classes`) for `targets` (samples, the same on
/// all processes); targets of `ignored` do not count. Maximum and sums are combined over the lanes: no process ever has
/// all logits of a sample. The same on all processes.
torch::Tensor vocabulary_cross_entropy(TensorGroup& group, const LaneTensors& logits, const torch::Tensor& targets,
                                       std::int64_t classes, std::int64_t ignored = -100,
                                       const std::string& label = "cross_entropy");

/// Normalises over the last dimension what is divided along `dim` (sequence parallelism). Scale and offset are whole on
/// all processes, and so are their gradients.
class SequenceLayerNormImpl : public torch::nn::Module {
 public:
  SequenceLayerNormImpl(TensorGroup& group, const torch::nn::LayerNorm& whole, std::string label = "norm");

  /// This process's part along `dim`, of `whole` positions, likewise.
  torch::Tensor forward(const torch::Tensor& part, std::int64_t dim, std::int64_t whole);

  torch::Tensor weight, bias;

 private:
  TensorGroup& group_;
  double eps_;
  std::string label_;
};
TORCH_MODULE(SequenceLayerNorm);

/// `part` (batch × part of the positions × width) plus the first rows of `table` (positions × width, whole on all
/// processes, and so is its gradient).
torch::Tensor add_positions(TensorGroup& group, const torch::Tensor& part, const torch::Tensor& table,
                            std::int64_t length, const std::string& label = "positions");

/// Self-attention by heads: `qkv` is what a ColumnParallelLinear of three pieces gives, per lane batch × length × 3
/// times its width. `heads` are those of all lanes, which must divide them. Returns per lane batch × length × its
/// width, for a RowParallelLinear.
LaneTensors attention_by_heads(TensorGroup& group, const LaneTensors& qkv, std::int64_t heads, bool causal,
                               double dropout_probability = 0);

}  // namespace trireme::parallel
