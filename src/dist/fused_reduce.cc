#include "dist/fused_reduce.h"

#include <algorithm>

#include "base/error.h"
#include "base/random.h"
#include "collective/reduction.h"
#include "tensor/device/host_memory.h"
#include "tensor/torch_dtype.h"

namespace trireme::dist {
namespace {

void check(const torch::Tensor& tensor, const ReduceOptions& options) {
  if (!tensor.defined()) fail<InvalidArgument>("all_reduce '{}' of a tensor that is not defined", options.name);
  const auto dtype = dtype_of(tensor.scalar_type());
  if (!dtype || dtype == DType::kBool) {
    fail<InvalidArgument>(
        "all_reduce '{}' of {}: there is no such sum; convert it first, with tensor.to(torch::kFloat)", options.name,
        c10::toString(tensor.scalar_type()));
  }
  if (options.compression.kind == codec::Kind::kNone) return;
  if (dtype != DType::kF32) {
    fail<InvalidArgument>("all_reduce '{}' of {} with compression {}: only float32 is compressed", options.name,
                          c10::toString(tensor.scalar_type()), codec::to_string(options.compression));
  }
  if (options.op != ReduceOp::kSum && options.op != ReduceOp::kAverage) {
    fail<InvalidArgument>("all_reduce '{}' {} with compression {}: only sums and averages are compressed", options.name,
                          collective::name_of(options.op), codec::to_string(options.compression));
  }
}

}  // namespace

FusedBuffer::FusedBuffer(const std::vector<torch::Tensor>& in, const std::vector<torch::Tensor>& out,
                         const ReduceOptions& options)
    : out_(out), options_(options) {
  torch::NoGradGuard no_grad;
  if (in.size() == 1) {
    flat_ = on_host(in.front());
    const bool own_memory = flat_.data_ptr() == in.front().data_ptr();
    if (own_memory && out.front().data_ptr() != in.front().data_ptr()) flat_ = flat_.clone();
    flat_ = flat_.view({-1});
    return;
  }
  std::int64_t total = 0;
  for (const torch::Tensor& tensor : in) total += tensor.numel();
  flat_ = torch::empty({total}, torch::TensorOptions(in.front().scalar_type()));
  std::int64_t at = 0;
  for (const torch::Tensor& tensor : in) {
    flat_.narrow(0, at, tensor.numel()).view(tensor.sizes()).copy_(tensor.detach());
    at += tensor.numel();
  }
}

void FusedBuffer::start(Negotiation& negotiation, bool in_background) {
  const auto count = static_cast<std::size_t>(flat_.numel());
  const DType dtype = *dtype_of(flat_.scalar_type());
  // A mean of floats is made where the sum is, before it is rounded. A mean of integers is truncated once, at the end,
  // when it is known how many they are of.
  const bool floating = flat_.is_floating_point();
  const ReduceOp op = !floating && options_.op == ReduceOp::kAverage ? ReduceOp::kSum : options_.op;
  const OpRequest request{.kind = OpRequest::Kind::kAllReduce,
                          .dtype = dtype,
                          .op = op,
                          .codec = options_.compression.kind,
                          .ratio = options_.compression.ratio,
                          .count = count};
  outcome_ = in_background ? negotiation.start(request, options_.name) : negotiation.negotiate(request, options_.name);
  if (!in_background) outcome_->contributors();  // throws before anything moves if the ranks do not agree
  collective::Communicator& ranks = negotiation.ranks();
  if (options_.compression.kind != codec::Kind::kNone) {
    codec::Spec spec = options_.compression;
    spec.error_feedback = false;
    compressed_.emplace(ranks, spec, count, collective::ReduceOptions{.op = op});
    return compressed_->start({flat_.data_ptr<float>(), count}, mix_seed(negotiation.rounds(), count));
  }
  collective::Operation operation =
      collective::all_reduce(collective::Array(dtype, flat_.data_ptr(), count), {.op = op});
  operation.label = options_.name;
  if (!in_background) return ranks.run(std::move(operation));
  plain_ = collective::PendingOperation(ranks, std::move(operation));
}

void FusedBuffer::finish() {
  torch::NoGradGuard no_grad;
  plain_.wait();
  if (compressed_) compressed_->finish();
  scale(outcome_->contributors());
  std::int64_t at = 0;
  for (torch::Tensor& tensor : out_) {
    if (tensor.data_ptr() != flat_.data_ptr()) {
      tensor.detach().copy_(flat_.narrow(0, at, tensor.numel()).view(tensor.sizes()));
    }
    at += tensor.numel();
  }
}

void FusedBuffer::scale(std::uint32_t contributors) {
  if (options_.op != ReduceOp::kAverage) return;
  const auto ranks = static_cast<double>(outcome_->all().size());
  if (!flat_.is_floating_point()) {
    flat_.div_(static_cast<std::int64_t>(contributors), "trunc");
  } else if (contributors < ranks) {
    flat_.mul_(ranks / contributors);
  }
}

FusedReduce::FusedReduce(const std::vector<torch::Tensor>& in, std::vector<torch::Tensor> out, ReduceOptions options)
    : options_(std::move(options)), out_(std::move(out)) {
  for (const torch::Tensor& tensor : in) check(tensor, options_);
  if (out_.empty()) {
    for (const torch::Tensor& tensor : in) out_.push_back(torch::empty_like(tensor.detach()));
  }
  std::vector<torch::ScalarType> types;
  for (const torch::Tensor& tensor : in) {
    if (std::ranges::find(types, tensor.scalar_type()) == types.end()) types.push_back(tensor.scalar_type());
  }
  for (const torch::ScalarType type : types) {
    std::vector<torch::Tensor> from;
    std::vector<torch::Tensor> to;
    for (std::size_t i = 0; i < in.size(); ++i) {
      if (in[i].scalar_type() != type) continue;
      from.push_back(in[i]);
      to.push_back(out_[i]);
    }
    buffers_.push_back(std::make_unique<FusedBuffer>(from, to, options_));
  }
}

void FusedReduce::start(Negotiation& negotiation, bool in_background) {
  for (const auto& fused : buffers_) fused->start(negotiation, in_background);
}

bool FusedReduce::poll() const {
  return done_ || std::ranges::all_of(buffers_, [](const auto& fused) { return fused->poll(); });
}

const std::vector<torch::Tensor>& FusedReduce::wait() {
  if (!done_) {
    done_ = true;
    for (const auto& fused : buffers_) {  // all of them: the memory of each is in use until it has ended
      try {
        fused->finish();
      } catch (...) {
        if (!problem_) problem_ = std::current_exception();
      }
    }
    buffers_.clear();
  }
  if (problem_) std::rethrow_exception(problem_);
  return out_;
}

void FusedReduce::give_up() {
  buffers_.clear();
  if (!std::exchange(done_, true)) {
    problem_ = std::make_exception_ptr(PeerLost("the result was not waited for while the ranks were together"));
  }
}

std::vector<torch::Tensor> Handle::wait_all() { return reduce_->wait(); }

bool Handle::poll() const { return reduce_->poll(); }

}  // namespace trireme::dist
