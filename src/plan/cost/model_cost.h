#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::plan {

/// What a model that comes with Trireme is given; 0 and empty stand for what is usual for it.
struct ModelInput {
  std::uint64_t length = 0;               ///< tokens per sample that the model sees; also its context
  std::vector<std::uint64_t> shape = {};  ///< of images: channels, rows, columns; of an mlp's samples: any
  std::uint64_t classes = 0;              ///< outputs; for tokens, the vocabulary
  bool fused_attention = true;            ///< LibTorch 2 and later; else the matrix of all pairs of tokens is kept
};

/// What one layer, the smallest part that a pipeline stage can hold, costs. Flops and elements are for one sample.
struct LayerCost {
  std::string name;
  std::uint64_t parameters = 0;
  std::vector<std::uint64_t> tensors = {};  ///< the same by tensor, in the order of registration
  std::uint64_t split_parameters = 0;       ///< of these: those that the dimension tensor divides
  double forward_flops = 0;                 ///< two for a multiplication and its addition; each gradient takes as many
  double input = 0;                         ///< elements that come in; kept for the backward, also with recomputation
  double kept = 0;                          ///< further elements that the forward keeps for the backward
  double kept_bytes = 0;                    ///< the same where it does not depend on the precision: statistics, indices
  double gathered = 0;                      ///< of input and kept: elements that each rank of a tensor group has whole
  double deferred = 0;                      ///< elements that a split backward keeps for the gradients of the weights
  double passing = 0;                       ///< elements that its backward takes at once beside all that is kept
  double passing_more = 0;                  ///< and more of a split one, which lets go of less
  double loss_bytes = 0;      ///< the logits in fp32: the loss keeps as much, and its backward takes twice as much more
  double output = 0;          ///< elements that go to the next layer
  double summed_forward = 0;  ///< elements that the ranks of a tensor group sum in the forward
  double summed_backward = 0;  ///< and in the backward
  bool recomputable = false;   ///< a block, which recomputation computes again from its input

  /// Adds tensors of so many parameters each.
  void add_tensors(std::initializer_list<std::uint64_t> sizes);
  std::uint64_t largest_tensor() const;  ///< 0 if it has none
};

/// A model as a list of layers.
struct ModelCost {
  std::string name;
  std::string sample;  ///< what a sample is, for people: "1024 tokens"
  ModelInput input;    ///< what it was given, and what is usual where that left it open
  std::vector<LayerCost> layers;
  std::uint64_t tied_parameters = 0;  ///< of the first layer: the last one uses them, too
  std::uint32_t heads = 0;            ///< which the dimension tensor has to divide; 0 = there are none
  bool any_slices = false;            ///< the dimension tensor splits it though it has no heads

  std::uint64_t parameters() const;  ///< tied ones once
  double forward_flops() const;
};

/// The models that can be planned, in alphabetical order.
const std::vector<std::string>& planned_models();

/// Whether `model`, a name with or without settings, is one of them.
bool is_planned(std::string_view model);

/// Returns the cost of a model, such as "gpt-tiny:layers=4,dropout=0.1", from its shapes alone: no LibTorch, no tensor.
/// Parameter counts are exact, and kept elements are the tensors that autograd saves: tests compare both with the
/// modules. Throws InvalidArgument with the models there are if it knows none of this name, or if the settings or the
/// input do not fit the model.
ModelCost model_cost(std::string_view model, const ModelInput& input = {});

}  // namespace trireme::plan
