#include "tensor/files/torchscript.h"

#include <sstream>

#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/csrc/jit/serialization/import.h>

#include "base/error.h"
#include "base/file.h"
#include "tensor/torch_dtype.h"

namespace trireme {
namespace {

/// A network of TorchScript as a module: the tensors are the script's own, so that what training changes is what
/// forward uses.
class ScriptModule : public torch::nn::Module {
 public:
  explicit ScriptModule(torch::jit::Module script) : script_(std::move(script)) {
    for (const auto& item : script_.named_parameters()) place(item.name, item.value, /*buffer=*/false);
    for (const auto& item : script_.named_buffers()) place(item.name, item.value, /*buffer=*/true);
  }

  void train(bool on = true) override {
    torch::nn::Module::train(on);
    script_.train(on);
  }

  /// Unoptimised: LibTorch's executor would rewrite the graph after it has seen some runs, and how many there were
  /// depends on how many lanes a worker has; bits must not.
  torch::Tensor forward(const std::vector<torch::Tensor>& inputs) {
    const torch::jit::GraphOptimizerEnabledGuard unoptimised(false);
    const torch::jit::IValue output =
        script_.get_method("forward")(std::vector<torch::jit::IValue>(inputs.begin(), inputs.end()));
    if (!output.isTensor()) {
      fail<InvalidArgument>("the forward of TorchScript returns {}, and a tensor is wanted", output.tagKind());
    }
    return output.toTensor();
  }

  const torch::jit::Module& script() const { return script_; }

 private:
  /// "body.0.weight" is the tensor `weight` of the module `0` in the module `body`.
  void place(const std::string& name, const torch::Tensor& tensor, bool buffer) {
    torch::nn::Module* at = this;
    std::istringstream parts(name);
    std::string part;
    std::getline(parts, part, '.');
    for (std::string next; std::getline(parts, next, '.'); part = next) {
      const auto children = at->named_children();
      const auto* const child = children.find(part);
      at = child != nullptr ? child->get() : at->register_module(part, std::make_shared<torch::nn::Module>(part)).get();
    }
    if (buffer) {
      at->register_buffer(part, tensor);
    } else {
      at->register_parameter(part, tensor, tensor.requires_grad());
    }
  }

  torch::jit::Module script_;
};

/// LibTorch's errors go on with a trace of its own stack, and of the script's; this is what happened.
std::string reason_of(const std::exception& problem) {
  const std::string text = problem.what();
  const std::size_t at = text.rfind("RuntimeError: ");
  std::istringstream lines(at == std::string::npos ? text : text.substr(at));
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty()) return line;
  }
  return "unknown";
}

torch::jit::Module load(const std::filesystem::path& file) {
  if (!std::filesystem::is_regular_file(file)) {
    fail<InvalidArgument>("there is no file {}: name one that torch.jit.save wrote", file.string());
  }
  try {
    return torch::jit::load(file.string(), torch::Device(torch::kCPU));
  } catch (const std::exception& problem) {
    fail<InvalidArgument>(
        "{} is no TorchScript: save it in Python with torch.jit.script(net).save(file), or torch.jit.trace (LibTorch: "
        "{})",
        file.string(), reason_of(problem));
  }
}

/// Throws InvalidArgument unless `script` has a forward of tensors.
void check_forward(const torch::jit::Module& script, const std::filesystem::path& file) {
  const auto method = script.find_method("forward");
  if (!method) {
    fail<InvalidArgument>(
        "{} has no forward: it holds parameters, but no network; save it with torch.jit.script(net).save(file)",
        file.string());
  }
}

/// How many arguments forward must have, and may have.
struct Arity {
  std::size_t least = 0;
  std::size_t most = 0;
};

Arity arity_of(const torch::jit::Module& script) {
  Arity arity;
  const auto& arguments = script.get_method("forward").function().getSchema().arguments();
  for (std::size_t i = 1; i < arguments.size(); ++i) {  // the first is the module itself
    ++arity.most;
    if (!arguments[i].default_value()) ++arity.least;
  }
  return arity;
}

/// Two samples of zeros.
torch::Tensor empty_input(const data::Field& field, bool without_last) {
  constexpr std::int64_t kSomeLength = 4;
  std::vector<std::int64_t> shape{2};
  for (const std::int64_t extent : field.shape) shape.push_back(extent == data::kVaries ? kSomeLength : extent);
  if (without_last) --shape.back();
  return torch::zeros(shape, scalar_type_of(field.dtype));
}

}  // namespace

Model load_torchscript(const std::filesystem::path& file) {
  torch::jit::Module script = load(file);
  check_forward(script, file);
  const auto module = std::make_shared<ScriptModule>(std::move(script));
  return Model(module, [module](const std::vector<torch::Tensor>& inputs) { return module->forward(inputs); });
}

bool is_torchscript(const Model& model) { return dynamic_cast<const ScriptModule*>(model.module.get()) != nullptr; }

void save_torchscript(const Model& model, const std::filesystem::path& file) {
  const auto* const module = dynamic_cast<const ScriptModule*>(model.module.get());
  if (module == nullptr) fail<InvalidArgument>("only a network that came from TorchScript can be written as such");
  torch::jit::Module copy = module->script().deepcopy();
  copy.to(torch::Device(torch::kCPU));
  copy.eval();
  std::ostringstream bytes;
  copy.save(bytes);
  write_file_atomically(file, as_bytes(bytes.view()));
}

void try_torchscript(const std::filesystem::path& file, const data::Schema& samples, const std::string& task,
                     std::int64_t outputs) {
  const Model model = load_torchscript(file);
  const auto& script = dynamic_cast<const ScriptModule&>(*model.module).script();
  const std::vector<std::size_t> fields = samples.with(data::Role::kInput);
  const Arity arity = arity_of(script);
  if (fields.size() < arity.least || fields.size() > arity.most) {
    fail<InvalidArgument>("its forward takes {} input(s), and the samples have {}: {}", arity.least, fields.size(),
                          samples.describe());
  }
  const bool language = task == "language-model";
  std::vector<torch::Tensor> inputs;
  std::string what;
  for (const std::size_t i : fields) {
    inputs.push_back(empty_input(samples[i], language));
    what += fmt::format("{}field '{}' ({})", what.empty() ? "" : ", ", samples[i].name, samples[i].describe());
  }
  model.module->eval();
  const torch::NoGradGuard no_grad;
  torch::Tensor output;
  try {
    output = model.forward(inputs);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& problem) {
    fail<InvalidArgument>("its forward does not take {}: {}", what, reason_of(problem));
  }
  const std::int64_t places = language ? inputs.front().numel() : 2;
  if (outputs == 0 || output.numel() == places * outputs) return;
  fail<InvalidArgument>("its forward gives {} numbers per {} of {}, and task {} needs {}",
                        static_cast<double>(output.numel()) / static_cast<double>(places),
                        language ? "token" : "sample", what, task, outputs);
}

}  // namespace trireme
