#include "trireme/model.h"

#include <unordered_set>

#include "base/error.h"
#include "base/suggest.h"
#include "models/lenet.h"
#include "models/mlp.h"

namespace trireme {

std::vector<NamedParameter> trainable_parameters(const torch::nn::Module& module) {
  std::vector<NamedParameter> parameters;
  std::unordered_set<const at::TensorImpl*> seen;
  for (const auto& item : module.named_parameters()) {
    const torch::Tensor& tensor = item.value();
    if (tensor.requires_grad() && seen.insert(tensor.unsafeGetTensorImpl()).second) {
      parameters.push_back({item.key(), tensor});
    }
  }
  return parameters;
}

std::vector<std::string> model_names() { return {"lenet", "mlp"}; }

Model make_model(const std::string& name, const std::vector<std::int64_t>& shape, std::int64_t classes) {
  if (name == "mlp") {
    std::int64_t features = 1;
    for (const std::int64_t extent : shape) features *= extent;
    return models::Mlp(models::MlpOptions{.features = features, .classes = classes});
  }
  if (name == "lenet") return models::LeNet(shape, classes);
  fail<InvalidArgument>(
      "there is no model '{}'{}: use lenet or mlp, or write a program of your own (see "
      "examples/fashion_mnist.cc) and start it with 'trireme run'",
      name, did_you_mean(name, model_names()));
}

}  // namespace trireme
