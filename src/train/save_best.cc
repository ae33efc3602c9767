#include "trireme/checkpoint.h"
#include "trireme/trainer.h"

#include "base/log.h"

namespace trireme {
namespace {

class SaveBest final : public Callback {
 public:
  SaveBest(const std::filesystem::path& path, BestBy by)
      : best_(path, by == BestBy::kLoss ? BestCheckpoint::Best::kLowest : BestCheckpoint::Best::kHighest), by_(by) {}

  void on_start(const Model& model, const RunPlan& /*plan*/) override { module_ = model.module; }

  void on_evaluation(Step step, const Evaluation& evaluation, TrainControl& /*control*/) override {
    const bool by_loss = by_ == BestBy::kLoss;
    const double metric = by_loss ? evaluation.loss : evaluation.accuracy;
    if (!best_.offer(*module_, metric, by_loss ? "loss" : "accuracy")) return;
    log_info("best_model_saved", "saved the best model so far",
             {{"step", step}, {"metric", by_loss ? "loss" : "accuracy"}, {"value", metric}});
  }

 private:
  BestCheckpoint best_;
  BestBy by_;
  std::shared_ptr<torch::nn::Module> module_;
};

}  // namespace

std::shared_ptr<Callback> save_best(const std::filesystem::path& path, BestBy by) {
  return std::make_shared<SaveBest>(path, by);
}

}  // namespace trireme
