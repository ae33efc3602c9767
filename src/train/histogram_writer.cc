#include "train/histogram_writer.h"

#include "tensor/device/host_memory.h"

namespace trireme {

HistogramWriter::HistogramWriter(const std::filesystem::path& folder, Step after) : file_(folder) {
  if (after > 0) file_.begin_after(after);
}

void HistogramWriter::write(const Model& model, const HistogramSink& gradients, Step step) {
  const auto parameters = trainable_parameters(*model.module);
  for (std::size_t i = 0; i < parameters.size() && i < gradients.histograms().size(); ++i) {
    const torch::Tensor values = on_host(parameters[i].tensor.detach()).to(torch::kFloat).contiguous();
    const std::span<const float> floats(values.data_ptr<float>(), static_cast<std::size_t>(values.numel()));
    file_.add_histogram("weights/" + parameters[i].name, observe::histogram_of(floats), step);
    file_.add_histogram("gradients/" + parameters[i].name, gradients.histograms()[i], step);
  }
}

}  // namespace trireme
