#include "collective/compressed_reduce.h"

#include <algorithm>

#include "base/error.h"
#include "codec/codec.h"

namespace trireme::collective {

CompressedReduce::CompressedReduce(Communicator& ranks, const codec::Spec& spec, std::size_t count,
                                   ReduceOptions options)
    : ranks_(ranks), feedback_(spec, count), options_(std::move(options)) {
  TRIREME_CHECK(options_.op == ReduceOp::kSum || options_.op == ReduceOp::kAverage,
                "encoded forms are added, nothing else");
  if (spec.kind == codec::Kind::kNone) return;
  mine_.resize(codec::encoded_bytes(spec, count));
  if (!codec::reducible_as(spec)) all_.resize(mine_.size() * ranks.size());
}

void CompressedReduce::start(std::span<float> values, std::uint64_t key, std::string label) {
  values_ = values;
  key_ = key;
  const codec::Spec& spec = feedback_.spec();
  const auto send = [&](Operation operation) {
    operation.label = std::move(label);
    pending_ = PendingOperation(ranks_, std::move(operation));
  };
  if (spec.kind == codec::Kind::kNone) return send(all_reduce(values, options_));
  const auto began = Deadline::Clock::now();
  feedback_.encode(key, values, mine_);
  encode_seconds_ += seconds(Deadline::Clock::now() - began);
  if (const auto dtype = codec::reducible_as(spec)) {
    const Array encoded(*dtype, mine_.data(), mine_.size() / size_of(*dtype));
    send(all_reduce(encoded, {.op = options_.op}));
  } else {
    send(all_gather(ConstArray(DType::kU8, mine_.data(), mine_.size()), Array(DType::kU8, all_.data(), all_.size())));
  }
}

void CompressedReduce::finish() {
  try {
    pending_.wait();
    if (feedback_.spec().kind != codec::Kind::kNone) decode();
  } catch (...) {
    feedback_.undo();
    throw;
  }
  feedback_.commit();
}

void CompressedReduce::decode() {
  const codec::Spec& spec = feedback_.spec();
  if (codec::reducible_as(spec)) return codec::decode(spec, key_, mine_, values_);
  std::ranges::fill(values_, 0.0f);
  const Bytes all(all_);
  for (std::uint32_t rank = 0; rank < ranks_.size(); ++rank) {
    codec::add_decoded(spec, key_, all.subspan(rank * mine_.size(), mine_.size()), values_);
  }
  if (options_.op == ReduceOp::kSum) return;
  const auto share = 1 / static_cast<float>(ranks_.size());
  for (float& value : values_) value *= share;
}

}  // namespace trireme::collective
