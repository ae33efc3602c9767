#include "dist/optimizer_item.h"

#include <sstream>
#include <type_traits>

#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include "base/error.h"

namespace trireme::dist {
namespace {

using torch::optim::Optimizer;
using torch::optim::OptimizerParamState;

// ---- What the optimizers keep for a parameter. `visit` gets a name and a reference: to a tensor, or to a count.

template <typename Visit>
void visit_fields(torch::optim::SGDParamState& state, Visit visit) {
  visit("momentum_buffer", state.momentum_buffer());
}

template <typename Visit>
void visit_fields(torch::optim::AdamParamState& state, Visit visit) {
  visit("step", state.step());
  visit("exp_avg", state.exp_avg());
  visit("exp_avg_sq", state.exp_avg_sq());
  visit("max_exp_avg_sq", state.max_exp_avg_sq());
}

template <typename Visit>
void visit_fields(torch::optim::AdamWParamState& state, Visit visit) {
  visit("step", state.step());
  visit("exp_avg", state.exp_avg());
  visit("exp_avg_sq", state.exp_avg_sq());
  visit("max_exp_avg_sq", state.max_exp_avg_sq());
}

template <typename Visit>
void visit_fields(torch::optim::RMSpropParamState& state, Visit visit) {
  visit("step", state.step());
  visit("square_avg", state.square_avg());
  visit("momentum_buffer", state.momentum_buffer());
  visit("grad_avg", state.grad_avg());
}

template <typename Visit>
void visit_fields(torch::optim::AdagradParamState& state, Visit visit) {
  visit("step", state.step());
  visit("sum", state.sum());
}

/// How torch finds a parameter's state: by the address of its implementation, as a text in older releases.
template <typename Key>
Key key_for(const torch::Tensor& parameter) {
  if constexpr (std::is_same_v<Key, std::string>) {
    std::ostringstream text;  // as they made it
    text << parameter.unsafeGetTensorImpl();
    return text.str();
  } else {
    return parameter.unsafeGetTensorImpl();
  }
}

auto key_of(Optimizer& optimizer, const torch::Tensor& parameter) {
  return key_for<typename std::decay_t<decltype(optimizer.state())>::key_type>(parameter);
}

template <typename ParamState>
class OptimizerItem final : public StateItem {
 public:
  OptimizerItem(Optimizer& optimizer, std::function<std::string(const torch::Tensor&)> name_of)
      : optimizer_(optimizer), name_of_(std::move(name_of)) {}

  /// {"lr": [by group], "parameters": {"<name>": {"step": 7, "exp_avg": true, …}}}: counts, and which tensors there
  /// are.
  nlohmann::json describe() override {
    nlohmann::json rates = nlohmann::json::array();
    for (const auto& group : optimizer_.param_groups()) rates.push_back(group.options().get_lr());
    nlohmann::json parameters = nlohmann::json::object();
    visit_parameters([&](const std::string& name, const torch::Tensor& parameter) {
      ParamState* state = find(parameter);
      if (state == nullptr) return;
      nlohmann::json& fields = parameters[name] = nlohmann::json::object();
      visit_fields(*state, [&](const char* field, auto& value) {
        if constexpr (std::is_same_v<std::decay_t<decltype(value)>, torch::Tensor>) {
          if (value.defined()) fields[field] = true;
        } else {
          fields[field] = value;
        }
      });
    });
    return {{"lr", std::move(rates)}, {"parameters", std::move(parameters)}};
  }

  void prepare(const nlohmann::json& description) override {
    const nlohmann::json& rates = description.at("lr");
    if (rates.size() != optimizer_.param_groups().size()) {
      fail<InvalidArgument>("the optimizer of the state has {} groups of parameters, this one {}", rates.size(),
                            optimizer_.param_groups().size());
    }
    for (std::size_t i = 0; i < rates.size(); ++i) optimizer_.param_groups()[i].options().set_lr(rates[i]);
    const nlohmann::json& parameters = description.at("parameters");
    visit_parameters([&](const std::string& name, const torch::Tensor& parameter) {
      if (!parameters.contains(name)) {
        optimizer_.state().erase(key_of(optimizer_, parameter));
      } else {
        prepare(parameter, parameters.at(name));
      }
    });
  }

  std::vector<NamedParameter> tensors() override {
    std::vector<NamedParameter> all;
    visit_parameters([&](const std::string& name, const torch::Tensor& parameter) {
      ParamState* state = find(parameter);
      if (state == nullptr) return;
      visit_fields(*state, [&](const char* field, auto& value) {
        if constexpr (std::is_same_v<std::decay_t<decltype(value)>, torch::Tensor>) {
          if (value.defined()) all.push_back({fmt::format("optimizer/{}/{}", name, field), value});
        }
      });
    });
    return all;
  }

 private:
  void prepare(const torch::Tensor& parameter, const nlohmann::json& fields) {
    torch::NoGradGuard no_grad;
    if (find(parameter) == nullptr) optimizer_.state()[key_of(optimizer_, parameter)] = std::make_unique<ParamState>();
    visit_fields(*find(parameter), [&](const char* field, auto& value) {
      if constexpr (std::is_same_v<std::decay_t<decltype(value)>, torch::Tensor>) {
        if (!fields.contains(field)) {
          value = torch::Tensor();
        } else if (!value.defined()) {
          value = torch::zeros_like(parameter, at::MemoryFormat::Preserve);
        }
      } else {
        value = fields.at(field);
      }
    });
  }

  ParamState* find(const torch::Tensor& parameter) {
    const auto found = optimizer_.state().find(key_of(optimizer_, parameter));
    return found == optimizer_.state().end() ? nullptr : static_cast<ParamState*>(found->second.get());
  }

  template <typename Visit>
  void visit_parameters(Visit visit) {
    for (const auto& group : optimizer_.param_groups()) {
      for (const torch::Tensor& parameter : group.params()) visit(name_of_(parameter), parameter);
    }
  }

  Optimizer& optimizer_;
  std::function<std::string(const torch::Tensor&)> name_of_;
};

}  // namespace

std::unique_ptr<StateItem> optimizer_item(Optimizer& optimizer,
                                          std::function<std::string(const torch::Tensor& parameter)> name_of) {
  using namespace torch::optim;
  if (dynamic_cast<SGD*>(&optimizer) != nullptr) {
    return std::make_unique<OptimizerItem<SGDParamState>>(optimizer, std::move(name_of));
  }
  if (dynamic_cast<Adam*>(&optimizer) != nullptr) {
    return std::make_unique<OptimizerItem<AdamParamState>>(optimizer, std::move(name_of));
  }
  if (dynamic_cast<AdamW*>(&optimizer) != nullptr) {
    return std::make_unique<OptimizerItem<AdamWParamState>>(optimizer, std::move(name_of));
  }
  if (dynamic_cast<RMSprop*>(&optimizer) != nullptr) {
    return std::make_unique<OptimizerItem<RMSpropParamState>>(optimizer, std::move(name_of));
  }
  if (dynamic_cast<Adagrad*>(&optimizer) != nullptr) {
    return std::make_unique<OptimizerItem<AdagradParamState>>(optimizer, std::move(name_of));
  }
  fail<InvalidArgument>(
      "the state of this optimizer is not known: it is none of torch's SGD, Adam, AdamW, RMSprop and Adagrad; add it "
      "as "
      "bytes (State::add with save and load)");
}

}  // namespace trireme::dist
