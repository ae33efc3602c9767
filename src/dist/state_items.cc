#include "dist/state_items.h"

#include <unordered_set>

#include "base/base64.h"
#include "base/error.h"
#include "checkpoint/format.h"

namespace trireme::dist {
namespace {

class TensorsItem final : public StateItem {
 public:
  explicit TensorsItem(std::vector<NamedParameter> tensors) : tensors_(std::move(tensors)) {}
  std::vector<NamedParameter> tensors() override { return tensors_; }

 private:
  std::vector<NamedParameter> tensors_;
};

class BytesItem final : public StateItem {
 public:
  BytesItem(std::function<std::string()> save, std::function<void(const std::string&)> load)
      : save_(std::move(save)), load_(std::move(load)) {}

  nlohmann::json describe() override { return base64_encode(save_()); }
  void prepare(const nlohmann::json& description) override { load_(base64_decode(description.get<std::string>())); }

 private:
  std::function<std::string()> save_;
  std::function<void(const std::string&)> load_;
};

}  // namespace

std::unique_ptr<StateItem> module_item(const torch::nn::Module& module, const std::string& name) {
  const std::string prefix = name.empty() ? "" : name + ".";
  std::vector<NamedParameter> all;
  std::unordered_set<const at::TensorImpl*> seen;
  const auto add = [&](const std::string& tensor_name, const torch::Tensor& tensor) {
    if (tensor.defined() && seen.insert(tensor.unsafeGetTensorImpl()).second) all.push_back({tensor_name, tensor});
  };
  for (const auto& item : module.named_parameters()) add(checkpoint::model_tensor(prefix + item.key()), item.value());
  for (const auto& item : module.named_buffers()) add(checkpoint::buffer_tensor(prefix + item.key()), item.value());
  return std::make_unique<TensorsItem>(std::move(all));
}

std::unique_ptr<StateItem> tensor_item(const std::string& name, torch::Tensor tensor) {
  return std::make_unique<TensorsItem>(std::vector<NamedParameter>{{"value/" + name, std::move(tensor)}});
}

std::unique_ptr<StateItem> memory_item(const std::string& name, void* memory, std::size_t bytes) {
  return tensor_item(name, torch::from_blob(memory, {static_cast<std::int64_t>(bytes)}, torch::kUInt8));
}

std::unique_ptr<StateItem> bytes_item(std::function<std::string()> save, std::function<void(const std::string&)> load) {
  return std::make_unique<BytesItem>(std::move(save), std::move(load));
}

std::unique_ptr<StateItem> generator_item(at::Generator generator) {
  return bytes_item(
      [generator] {
        const torch::Tensor state = generator.get_state().contiguous();
        return std::string(static_cast<const char*>(state.data_ptr()), state.nbytes());
      },
      [generator](const std::string& bytes) mutable {
        torch::Tensor state = torch::empty({static_cast<std::int64_t>(bytes.size())}, torch::kUInt8);
        bytes.copy(static_cast<char*>(state.data_ptr()), bytes.size());
        generator.set_state(state);
      });
}

std::vector<NamedParameter> tensors_of(const StateItems& items) {
  std::vector<NamedParameter> all;
  for (const auto& item : items) {
    for (NamedParameter& tensor : item->tensors()) all.push_back(std::move(tensor));
  }
  return all;
}

nlohmann::json describe(const StateItems& items) {
  nlohmann::json descriptions = nlohmann::json::array();
  for (const auto& item : items) descriptions.push_back(item->describe());
  return descriptions;
}

void prepare(const StateItems& items, const nlohmann::json& descriptions) {
  if (!descriptions.is_array() || descriptions.size() != items.size()) {
    fail<InvalidArgument>(
        "the state is that of another program: {} things were added to it there, {} here; all ranks, and a run that "
        "goes "
        "on, add the same in the same order",
        descriptions.size(), items.size());
  }
  for (std::size_t i = 0; i < items.size(); ++i) {
    try {
      items[i]->prepare(descriptions[i]);
    } catch (const nlohmann::json::exception& problem) {
      fail<InvalidArgument>("the state is that of another program: thing {} of it is of another kind ({})", i + 1,
                            problem.what());
    }
  }
}

StateSnapshot::StateSnapshot(const StateItems& items) : descriptions_(describe(items)) {
  torch::NoGradGuard no_grad;
  for (const NamedParameter& tensor : tensors_of(items)) values_.push_back(tensor.tensor.detach().clone());
}

void StateSnapshot::restore(const StateItems& items) const {
  torch::NoGradGuard no_grad;
  prepare(items, descriptions_);
  std::size_t i = 0;
  for (const NamedParameter& tensor : tensors_of(items)) {
    torch::Tensor target = tensor.tensor;
    target.copy_(values_[i++]);
  }
}

}  // namespace trireme::dist
