#include "trireme/train/parameter_server.h"

#include "trireme/base/error.h"
#include "trireme/base/log.h"

namespace trireme {

ParameterServer::ParameterServer(Job& job, ParameterServerOptions options)
    : options_(options),
      chief_(job.chief()),
      client_(job.loop(), {.member = job.view().workers[job.rank()].id,
                           .view = job.view(),
                           .lanes = options.lanes,
                           .secret = job.place().secret,
                           .transport = job.place().transport,
                           .bits_per_second = job.place().bits_per_second}) {}

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
  std::vector<std::size_t> elements;
  for (const NamedParameter& parameter : trainable_parameters(*model.module)) {
    if (parameter.tensor.scalar_type() != torch::kFloat32) {
      fail<InvalidArgument>("parameter '{}' is not float32: parameter servers hold float32", parameter.name);
    }
    elements.push_back(static_cast<std::size_t>(parameter.tensor.numel()));
    tables.push_back({parameter.name, elements.back()});
    parameters.push_back(parameter.tensor);
  }
  if (tables.empty()) fail<InvalidArgument>("the model has no parameters to train");
  if (chief_ && !model.module->buffers().empty()) {
    log_warn(
        "the model has buffers (batch-norm statistics): each worker keeps its own, the chief's are evaluated and saved",
        {{"buffers", model.module->buffers().size()}});
  }
  client_.open(std::move(tables),
               {.update = options_.update, .consistency = options_.consistency, .codec = options_.codec});
  parameters_ = std::move(parameters);
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    torch::Tensor host = host_view(i);
    host.copy_(parameters_[i]);
    if (parameters_[i].is_cpu()) parameters_[i].set_data(host);
  }
  buckets_ = Buckets(elements, options_.bucket_bytes);
}

Step ParameterServer::meet() {
  if (chief_) client_.assign();
  refresh();
  log_info("attached to the parameter servers",
           {{"parameters", client_.layout().worker_floats()}, {"over", client_.transports()}});
  return 0;
}

torch::Tensor ParameterServer::host_view(std::size_t i) {
  return torch::from_blob(client_.parameters(static_cast<std::uint32_t>(i)).data(), parameters_[i].sizes());
}

void ParameterServer::begin(const StepInfo& info) {
  info_ = info;
  buckets_.begin();
}

std::span<float> ParameterServer::gradient(std::size_t i) { return client_.gradients(static_cast<std::uint32_t>(i)); }

void ParameterServer::add(std::size_t i) {
  const auto full = buckets_.add(i);
  if (!full) return;
  client_.push(buckets_.members(*full), {.step = info_.step,
                                         .unit = info_.unit,
                                         .lanes = info_.lanes,
                                         .samples = info_.samples,
                                         .lr = info_.lr,
                                         .stop = info_.stop});
}

Commit ParameterServer::finish() {
  const ps::StepOutcome outcome = client_.finish();
  take_parameters();
  return {.version = outcome.newest, .counted = outcome.counted, .stop = outcome.stop};
}

void ParameterServer::refresh() {
  client_.pull();
  take_parameters();
}

/// Makes the client's parameters, which may lie elsewhere after each step, the module's.
void ParameterServer::take_parameters() {
  torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    torch::Tensor host = host_view(i);
    if (!parameters_[i].is_cpu()) {
      parameters_[i].copy_(host);
    } else if (parameters_[i].data_ptr() != host.data_ptr()) {
      parameters_[i].set_data(host);
    }
  }
}

void ParameterServer::leave() { client_.leave(); }

void ParameterServer::interrupt(const std::string& reason) { client_.interrupt(reason); }

std::optional<Communication> ParameterServer::communication() const {
  const ps::Client::Traffic& traffic = client_.traffic();
  return Communication{.wire_bytes = traffic.pushed_bytes + traffic.pulled_bytes,
                       .plain_bytes = traffic.gradient_bytes + traffic.pulled_bytes,
                       .encode_seconds = traffic.encode_seconds};
}

}  // namespace trireme
