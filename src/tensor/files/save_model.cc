#include "trireme/checkpoint.h"

#include "base/error.h"
#include "checkpoint/safetensors/safetensors.h"
#include "tensor/device/host_memory.h"
#include "tensor/torch_dtype.h"

namespace trireme {

void save_model(const torch::nn::Module& module, const std::filesystem::path& path,
                const std::map<std::string, std::string>& metadata) {
  std::vector<torch::Tensor> tensors;  // keep the bytes alive
  std::vector<checkpoint::TensorView> views;
  const auto add = [&](const std::string& name, const torch::Tensor& tensor) {
    const auto dtype = dtype_of(tensor.scalar_type());
    if (!dtype) fail<InvalidArgument>("'{}' has a type that safetensors files do not know", name);
    const torch::Tensor& held = tensors.emplace_back(on_host(tensor));
    views.push_back({.name = name, .dtype = *dtype, .shape = held.sizes().vec(), .data = bytes_of(held)});
  };
  for (const auto& item : module.named_parameters()) add(item.key(), item.value());
  for (const auto& item : module.named_buffers()) add(item.key(), item.value());
  checkpoint::write_safetensors(path, views, checkpoint::Metadata(metadata.begin(), metadata.end()));
}

}  // namespace trireme
