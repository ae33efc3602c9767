#pragma once

#include <ATen/core/Generator.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>
#include <torch/nn/module.h>
#include <torch/types.h>

#include "trireme/model.h"

namespace trireme::dist {

/// One thing that a State consists of: tensors by name, not copied, and a description of what these do not tell.
class StateItem {
 public:
  virtual ~StateItem() = default;

  /// Returns what `prepare` needs besides the tensors; null if nothing.
  virtual nlohmann::json describe() { return nullptr; }

  /// Becomes what `description` says. Afterwards `tensors` are those of the item that was described, with any values.
  /// Throws InvalidArgument if it is of another program.
  virtual void prepare(const nlohmann::json& /*description*/) {}

  virtual std::vector<NamedParameter> tensors() { return {}; }
};

using StateItems = std::vector<std::unique_ptr<StateItem>>;

/// Parameters and buffers: "model/<name>.<parameter>", "buffer/<name>.<buffer>".
std::unique_ptr<StateItem> module_item(const torch::nn::Module& module, const std::string& name);

/// The user's tensor, or memory: "value/<name>".
std::unique_ptr<StateItem> tensor_item(const std::string& name, torch::Tensor tensor);
std::unique_ptr<StateItem> memory_item(const std::string& name, void* memory, std::size_t bytes);

/// What the user saves as bytes.
std::unique_ptr<StateItem> bytes_item(std::function<std::string()> save, std::function<void(const std::string&)> load);
std::unique_ptr<StateItem> generator_item(at::Generator generator);

/// Returns the tensors of all items, and their descriptions.
std::vector<NamedParameter> tensors_of(const StateItems& items);
nlohmann::json describe(const StateItems& items);

/// Throws InvalidArgument if the description is not of items like these.
void prepare(const StateItems& items, const nlohmann::json& descriptions);

/// A copy of items at one moment.
class StateSnapshot {
 public:
  StateSnapshot() = default;  ///< of no items
  explicit StateSnapshot(const StateItems& items);

  /// Makes `items`, those it was made of, what they were.
  void restore(const StateItems& items) const;

 private:
  nlohmann::json descriptions_ = nlohmann::json::array();
  std::vector<torch::Tensor> values_;
};

}  // namespace trireme::dist
