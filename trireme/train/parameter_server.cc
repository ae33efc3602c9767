#include "trireme/train/parameter_server.h"

#include "trireme/base/error.h"
#include "trireme/base/log.h"

namespace trireme {

ParameterServer::ParameterServer(Job& job, ParameterServerOptions options)
    : options_(options),
      chief_(job.chief()),
      client_(job.loop(), {.worker = job.rank(),
                           .workers = job.workers(),
                           .lanes = options.lanes,
                           .view = job.view().view,
                           .secret = job.place().secret,
                           .servers = job.view().servers,
                           .transport = job.place().transport}) {}

ParameterServer::~ParameterServer() {
  torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const bool ours = parameters_[i].is_cpu() && parameters_[i].data_ptr() == host_view(i).data_ptr();
    if (ours) parameters_[i].set_data(parameters_[i].detach().clone());
  }
}

void ParameterServer::attach(const Model& model) {
  torch::NoGradGuard no_grad;
  std::vector<ps::TableSpec> tables;
  std::vector<torch::Tensor> parameters;
  for (const NamedParameter& parameter : trainable_parameters(*model.module)) {
    if (parameter.tensor.scalar_type() != torch::kFloat32) {
      fail<InvalidArgument>("parameter '{}' is not float32: parameter servers hold float32", parameter.name);
    }
    tables.push_back({parameter.name, static_cast<std::uint64_t>(parameter.tensor.numel())});
    parameters.push_back(parameter.tensor);
  }
  if (tables.empty()) fail<InvalidArgument>("the model has no parameters to train");
  if (chief_ && !model.module->buffers().empty()) {
    log_warn(
        "the model has buffers (batch-norm statistics): each worker keeps its own, the chief's are evaluated and saved",
        {{"buffers", model.module->buffers().size()}});
  }
  client_.open(std::move(tables), {.update = options_.update, .consistency = options_.consistency});
  parameters_ = std::move(parameters);
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    torch::Tensor host = host_view(i);
    host.copy_(parameters_[i]);
    if (parameters_[i].is_cpu()) parameters_[i].set_data(host);
  }
  plan_buckets();
  if (chief_) client_.assign();
  refresh();
  log_info("attached to the parameter servers",
           {{"parameters", client_.layout().worker_floats()}, {"over", client_.transports()}});
}

torch::Tensor ParameterServer::host_view(std::size_t i) {
  return torch::from_blob(client_.parameters(static_cast<std::uint32_t>(i)).data(), parameters_[i].sizes());
}

void ParameterServer::plan_buckets() {
  // Backward produces the gradients of the last layers first. Small models still get a few buckets, so that the last
  // layers' gradients travel while the first layers' are computed.
  const std::size_t total = client_.layout().worker_floats() * sizeof(float);
  const std::size_t enough = std::min(options_.bucket_bytes, std::max<std::size_t>(total / 3, 128u << 10));
  bucket_of_.resize(parameters_.size());
  std::size_t filled = enough;
  for (std::size_t i = parameters_.size(); i-- > 0;) {
    if (filled >= enough) {
      buckets_.emplace_back();
      filled = 0;
    }
    buckets_.back().push_back(static_cast<std::uint32_t>(i));
    bucket_of_[i] = static_cast<std::uint32_t>(buckets_.size() - 1);
    filled += static_cast<std::size_t>(parameters_[i].numel()) * sizeof(float);
  }
}

void ParameterServer::begin(const StepInfo& info) {
  info_ = info;
  missing_.clear();
  for (const auto& bucket : buckets_) missing_.push_back(bucket.size());
}

std::span<float> ParameterServer::gradient(std::size_t i) { return client_.gradients(static_cast<std::uint32_t>(i)); }

void ParameterServer::add(std::size_t i) {
  const std::uint32_t bucket = bucket_of_[i];
  TRIREME_CHECK(missing_[bucket] > 0, "gradient {} was added twice", i);
  if (--missing_[bucket] > 0) return;
  client_.push(
      buckets_[bucket],
      {.step = info_.step, .lanes = info_.lanes, .samples = info_.samples, .lr = info_.lr, .stop = info_.stop});
}

Commit ParameterServer::finish() {
  const ps::StepOutcome outcome = client_.finish();
  copy_to_device();
  return {.version = outcome.newest, .counted = outcome.counted, .stop = outcome.stop};
}

void ParameterServer::refresh() {
  client_.pull();
  copy_to_device();
}

void ParameterServer::copy_to_device() {
  torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!parameters_[i].is_cpu()) parameters_[i].copy_(host_view(i));
  }
}

void ParameterServer::leave() { client_.leave(); }

void ParameterServer::interrupt(const std::string& reason) { client_.interrupt(reason); }

}  // namespace trireme
