#pragma once

#include <memory>
#include <vector>

#include "trireme/ps/client.h"
#include "trireme/train/buckets.h"
#include "trireme/train/job.h"
#include "trireme/train/strategy.h"

namespace trireme {

struct ParameterServerOptions {
  ps::UpdateConfig update;
  ps::Consistency consistency;
  Lane lanes = 1;
  codec::Spec codec = {};               ///< how gradients travel
  std::size_t bucket_bytes = 4u << 20;  ///< gradients are sent when this much of them is ready
};

/// Parameters live on servers; workers push gradients and pull parameters. On the CPU the module's parameters are
/// views of the memory that pulls write to; on a GPU they are copied there after each step.
class ParameterServer final : public Strategy {
 public:
  ParameterServer(Job& job, ParameterServerOptions options);

  /// Gives the module parameters of its own again, with their last values.
  ~ParameterServer() override;

  void attach(const Model& model) override;
  Step meet() override;
  void begin(const StepInfo& info) override;
  std::span<float> gradient(std::size_t i) override;
  void add(std::size_t i) override;
  Commit finish() override;
  void refresh() override;
  void leave() override;
  void interrupt(const std::string& reason) override;
  std::optional<Communication> communication() const override;

 private:
  void take_parameters();
  torch::Tensor host_view(std::size_t i);

  ParameterServerOptions options_;
  bool chief_;
  ps::Client client_;
  std::vector<torch::Tensor> parameters_;  // the module's
  Buckets buckets_;                        // of parameters (tables)
  StepInfo info_;
};

}  // namespace trireme
