#include "trireme/train/coded_reduce.h"

#include <algorithm>

#include "trireme/base/error.h"
#include "trireme/codec/codec.h"

namespace trireme {

CodedReduce::CodedReduce(collective::Communicator& ranks, const codec::Spec& spec, std::size_t count,
                         collective::ReduceOptions options)
    : ranks_(ranks), feedback_(spec, count), options_(std::move(options)) {
  TRIREME_CHECK(options_.op == collective::ReduceOp::kSum || options_.op == collective::ReduceOp::kAverage,
                "encoded forms are added, nothing else");
  if (spec.kind == codec::Kind::kNone) return;
  mine_.resize(codec::encoded_bytes(spec, count));
  if (!codec::reducible_as(spec)) all_.resize(mine_.size() * ranks.size());
}

void CodedReduce::start(std::span<float> values, std::uint64_t key, std::string label) {
  values_ = values;
  key_ = key;
  const codec::Spec& spec = feedback_.spec();
  const auto send = [&](collective::Operation operation) {
    operation.label = std::move(label);
    pending_ = Pending(ranks_, std::move(operation));
  };
  if (spec.kind == codec::Kind::kNone) return send(collective::all_reduce(values, options_));
  const auto began = Deadline::Clock::now();
  feedback_.encode(key, values, mine_);
  encode_seconds_ += seconds(Deadline::Clock::now() - began);
  if (const auto dtype = codec::reducible_as(spec)) {
    const collective::Array encoded(*dtype, mine_.data(), mine_.size() / size_of(*dtype));
    send(collective::all_reduce(encoded, {.op = options_.op}));
  } else {
    send(collective::all_gather(collective::ConstArray(DType::kU8, mine_.data(), mine_.size()),
                                collective::Array(DType::kU8, all_.data(), all_.size())));
  }
}

void CodedReduce::finish() {
  try {
    pending_.wait();
    if (feedback_.spec().kind != codec::Kind::kNone) decode();
  } catch (...) {
    feedback_.undo();
    throw;
  }
  feedback_.commit();
}

void CodedReduce::decode() {
  const codec::Spec& spec = feedback_.spec();
  if (codec::reducible_as(spec)) return codec::decode(spec, key_, mine_, values_);
  std::ranges::fill(values_, 0.0f);
  const Bytes all(all_);
  for (std::uint32_t rank = 0; rank < ranks_.size(); ++rank) {
    codec::add_decoded(spec, key_, all.subspan(rank * mine_.size(), mine_.size()), values_);
  }
  if (options_.op == collective::ReduceOp::kSum) return;
  const auto share = 1 / static_cast<float>(ranks_.size());
  for (float& value : values_) value *= share;
}

}  // namespace trireme
