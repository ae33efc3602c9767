#include "train/pipeline/activation_messages.h"

#include <cstring>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace trireme::parallel {
namespace {

using pipeline::Message;

std::string describe(const ActivationLayout& layout) {
  std::string text;
  for (const TensorLayout& tensor : layout) {
    text += fmt::format("{}'{}' {} [{}]", text.empty() ? "" : ", ", tensor.name, c10::toString(tensor.dtype),
                        fmt::join(tensor.shape, ", "));
  }
  return text.empty() ? "nothing" : text;
}

std::shared_ptr<const pipeline::Layout> packed(const ActivationLayout& layout) {
  auto json = nlohmann::json::array();
  for (const TensorLayout& tensor : layout) {
    json.push_back({tensor.name, static_cast<int>(tensor.dtype), tensor.shape, tensor.wants_gradient});
  }
  const std::string text = json.dump();
  if (text.size() >= pipeline::kLayoutBytes) {
    fail<InvalidArgument>("{} tensors between two layers are too many to describe: {}", layout.size(),
                          describe(layout));
  }
  auto bytes = std::make_shared<pipeline::Layout>();
  bytes->fill(std::byte{0});
  std::memcpy(bytes->data(), text.data(), text.size());
  return bytes;
}

ActivationLayout unpacked(const pipeline::Layout& layout) {
  const auto* text = reinterpret_cast<const char*>(layout.data());
  ActivationLayout tensors;
  try {
    for (const auto& item : nlohmann::json::parse(std::string(text, strnlen(text, layout.size())))) {
      const int dtype = item.at(1).get<int>();
      if (dtype < 0 || dtype >= static_cast<int>(torch::ScalarType::NumOptions)) fail<Corrupt>("an unknown type");
      tensors.push_back({item.at(0), static_cast<torch::ScalarType>(dtype), item.at(2), item.at(3)});
      for (const std::int64_t extent : tensors.back().shape) {
        if (extent < 0) fail<Corrupt>("a negative extent");
      }
    }
  } catch (const nlohmann::json::exception& problem) {
    fail<Corrupt>("a peer announces activations in a form that is none: {}", problem.what());
  }
  return tensors;
}

ActivationLayout layout_of(const Activations& activations) {
  ActivationLayout layout;
  for (const auto& [name, tensor] : activations) {
    layout.push_back({name, tensor.scalar_type(), tensor.sizes().vec(), tensor.requires_grad()});
  }
  return layout;
}

}  // namespace

bool KnownLayouts::is_new(const Key& key, const ActivationLayout& layout) {
  const auto [known, added] = sent_.emplace(key, layout);
  if (added || known->second == layout) return added;
  fail<InvalidArgument>(
      "what goes {} stage {} is {} for samples of shape {}, and was {} for others of this shape: in a pipeline the "
      "shapes of activations may depend on the shapes of the samples, not on their values",
      key.forward ? "into" : "back to", key.stage, describe(layout), key.samples, describe(known->second));
}

void KnownLayouts::learn(const Key& key, ActivationLayout layout) { received_[key] = std::move(layout); }

const ActivationLayout* KnownLayouts::find(const Key& key) const {
  const auto found = received_.find(key);
  return found == received_.end() ? nullptr : &found->second;
}

KnownLayouts::Key ActivationMessages::key_of(const Message& message) const {
  return {message.forward, message.stage, samples_[message.micro_batch]};
}

std::optional<std::vector<collective::Array>> ActivationMessages::memory_for(const Message& message) {
  const ActivationLayout* layout = known_.find(key_of(message));
  if (layout == nullptr) return std::nullopt;
  Activations& activations = tensors_[message];
  std::vector<collective::Array> arrays;
  for (const TensorLayout& tensor : *layout) {
    torch::Tensor memory = torch::empty(tensor.shape, torch::dtype(tensor.dtype));
    arrays.emplace_back(DType::kU8, memory.data_ptr(), memory.nbytes());
    if (tensor.wants_gradient) memory.requires_grad_();
    activations.emplace(tensor.name, std::move(memory));
  }
  return arrays;
}

void ActivationMessages::learn(const Message& message, const pipeline::Layout& layout) {
  known_.learn(key_of(message), unpacked(layout));
}

void ActivationMessages::put(const Message& message, Activations activations) {
  tensors_[message] = std::move(activations);
}

Activations ActivationMessages::take(const Message& message) {
  auto found = tensors_.extract(message);
  TRIREME_CHECK(!found.empty(), "a message that has not come");
  Activations taken;
  for (auto& [name, tensor] : found.mapped()) {
    const bool wants_gradient = tensor.requires_grad();
    taken.emplace(name, tensor.detach().to(device_).requires_grad_(wants_gradient));
  }
  return taken;
}

pipeline::Outgoing ActivationMessages::outgoing(const Message& message) {
  auto found = tensors_.extract(message);
  TRIREME_CHECK(!found.empty(), "a message that was not made");
  const ActivationLayout layout = layout_of(found.mapped());
  pipeline::Outgoing result;
  if (known_.is_new(key_of(message), layout)) result.layout = packed(layout);
  auto kept = std::make_shared<std::vector<torch::Tensor>>();
  for (auto& [name, tensor] : found.mapped()) {
    kept->push_back(tensor.detach().to(torch::kCPU).contiguous());
    result.arrays.emplace_back(DType::kU8, kept->back().data_ptr(), kept->back().nbytes());
  }
  result.keep = std::move(kept);
  return result;
}

std::string shapes_text(const std::vector<std::vector<std::int64_t>>& shapes) {
  std::string text;
  for (const auto& shape : shapes) text += fmt::format("{}{}", text.empty() ? "" : " ", fmt::join(shape, "x"));
  return text;
}

}  // namespace trireme::parallel
