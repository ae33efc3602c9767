#include <optional>

#include "trireme/checkpoint.h"
#include "trireme/trainer.h"

#include "base/log.h"

namespace trireme {
namespace {

class SaveBest final : public Callback {
 public:
  explicit SaveBest(std::filesystem::path path) : path_(std::move(path)) {}

  void on_start(const Model& model, const RunPlan& plan) override {
    module_ = model.module;
    const bool by_loss = plan.best_by.empty();
    metric_ = by_loss ? "loss" : plan.best_by;
    best_.emplace(path_, by_loss ? BestCheckpoint::Best::kLowest : BestCheckpoint::Best::kHighest);
  }

  bool reads_model() const override { return true; }

  void on_evaluation(Step step, const Evaluation& evaluation, TrainControl& /*control*/) override {
    if (evaluation.set != "test") return;
    const double value = evaluation.metric(metric_);
    if (!best_->offer(*module_, value, metric_)) return;
    log_info("best_model_saved", "saved the best model so far",
             {{"step", step}, {"metric", metric_}, {"value", value}});
  }

 private:
  std::filesystem::path path_;
  std::string metric_;
  std::optional<BestCheckpoint> best_;
  std::shared_ptr<torch::nn::Module> module_;
};

}  // namespace

std::shared_ptr<Callback> save_best(const std::filesystem::path& path) { return std::make_shared<SaveBest>(path); }

}  // namespace trireme
