// Your own model, task and data with every flag of `trireme train`:
//
//   ./own_model --model ours --data rings --epochs 5                     two workers and a server, as many as you like
//   ./own_model --model ours --data rings --strategy allreduce -w 4 --task cautious --out runs/rings
//   ./own_model --help                                                  all of them
//   trireme resume runs/rings --epochs 10                               the run knows its program
//   trireme eval runs/rings; trireme predict runs/rings --probabilities

#include <trireme/trireme.h>

#include <cmath>

namespace {

/// Points of the plane in three rings around the origin.
trireme::data::DatasetPtr rings(std::uint64_t count, std::uint64_t seed) {
  trireme::RandomStream random(seed);
  std::vector<float> points;
  std::vector<std::int64_t> labels;
  for (std::uint64_t i = 0; i < count; ++i) {
    const double angle = 2 * M_PI * random.uniform();
    const double radius = static_cast<double>(i % 3) + 1 + 0.15 * random.normal();
    points.insert(points.end(),
                  {static_cast<float>(radius * std::cos(angle)), static_cast<float>(radius * std::sin(angle))});
    labels.push_back(static_cast<std::int64_t>(i % 3));
  }
  auto ring = trireme::data::label("ring", std::move(labels), 3);
  ring.field.class_names = {"inner", "middle", "outer"};
  return trireme::data::in_memory("rings", {trireme::data::input("point", std::move(points), {2}), std::move(ring)});
}

struct Net : torch::nn::Module {
  Net(std::int64_t inputs, std::int64_t outputs)
      : first(register_module("first", torch::nn::Linear(inputs, 32))),
        last(register_module("last", torch::nn::Linear(32, outputs))) {}

  torch::Tensor forward(const torch::Tensor& x) { return last(torch::tanh(first(x))); }

  torch::nn::Linear first, last;
};

/// Classification that is not too sure of itself.
trireme::Task cautious() {
  trireme::Task task = trireme::classification();
  task.compute = [plain = task.compute](const trireme::Model& model, const trireme::Batch& batch) {
    trireme::Outcome outcome = plain(model, batch);
    const auto sure = torch::log_softmax(model.forward(batch.inputs()), 1);
    outcome.loss = outcome.loss + 0.01 * (sure.exp() * sure).sum(1).mean();
    return outcome;
  };
  return task;
}

}  // namespace

int main(int argc, char** argv) {
  trireme::register_model("ours", [](const trireme::data::Schema& samples, std::int64_t outputs) -> trireme::Model {
    const auto input = samples.with(trireme::data::Role::kInput).front();
    return std::make_shared<Net>(static_cast<std::int64_t>(samples[input].elements()), outputs);
  });
  trireme::register_task("cautious", cautious);
  trireme::register_data("rings", [] { return trireme::data::Split{.train = rings(3000, 1), .test = rings(300, 2)}; });
  return trireme::train_main(argc, argv);
}
