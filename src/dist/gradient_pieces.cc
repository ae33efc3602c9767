#include "dist/gradient_pieces.h"

#include <algorithm>

#include "base/error.h"
#include "base/random.h"
#include "collective/reduction.h"
#include "tensor/torch_dtype.h"

namespace trireme::dist {
namespace {

constexpr std::size_t kSmallestPiece = 128u << 10;  // bytes; below, a message costs more than it hides

}  // namespace

GradientPieces::GradientPieces(Negotiation& negotiation, std::vector<torch::Tensor> parameters,
                               GradientPiecesOptions options)
    : negotiation_(negotiation),
      options_(std::move(options)),
      parameters_(std::move(parameters)),
      places_(parameters_.size()) {
  codec::validate(options_.compression);
  if (options_.op != collective::ReduceOp::kAverage && options_.op != collective::ReduceOp::kSum) {
    fail<InvalidArgument>("gradients are averaged or summed: {} of them is no gradient", name_of(options_.op));
  }
  for (const torch::ScalarType type : {torch::kFloat32, torch::kFloat64, torch::kFloat16, torch::kBFloat16}) {
    lay_out(type);
  }
  std::size_t placed = 0;
  for (const Block& block : blocks_) placed += block.members.size();
  if (placed < parameters_.size()) {
    fail<InvalidArgument>("{} parameters are neither float32, float64, float16 nor bfloat16: others have no sum here",
                          parameters_.size() - placed);
  }
  begin_step();
}

void GradientPieces::lay_out(torch::ScalarType type) {
  Block block{.dtype = *dtype_of(type)};
  for (std::size_t i = parameters_.size(); i-- > 0;) {
    if (parameters_[i].scalar_type() != type) continue;
    block.members.push_back(i);
    places_[i].block = blocks_.size();
    places_[i].first = block.count;
    block.count += static_cast<std::size_t>(parameters_[i].numel());
  }
  if (block.members.empty()) return;
  block.memory = negotiation_.ranks().allocate(std::max<std::size_t>(1, block.count) * size_of(block.dtype));
  for (const std::size_t i : block.members) {
    places_[i].view = torch::from_blob(
        block.memory.get() + places_[i].first * size_of(block.dtype), parameters_[i].sizes(),
        [memory = block.memory](void*) {}, torch::TensorOptions(type));
  }
  cut(block);
  blocks_.push_back(std::move(block));
}

void GradientPieces::cut(Block& block) {
  // Small models still get a few pieces, so that the last layers' gradients travel while the first layers' are
  // computed.
  const std::size_t element = size_of(block.dtype);
  const std::size_t bytes = std::min(
      options_.piece_bytes, std::max(kSmallestPiece, block.count * element / 3 / codec::kBlock * codec::kBlock));
  block.piece = std::max<std::size_t>(1, bytes / element);
  for (std::size_t first = 0; first < block.count; first += block.piece) {
    Piece& piece = block.pieces.emplace_back();
    piece.first = first;
    piece.count = std::min(block.piece, block.count - first);
    if (block.dtype == DType::kF32) {
      piece.compressed = std::make_unique<collective::CompressedReduce>(
          negotiation_.ranks(), options_.compression, piece.count, collective::ReduceOptions{.op = options_.op});
    }
  }
}

void GradientPieces::begin_step() {
  added_any_ = false;
  for (Place& place : places_) place.there = false;
  for (Block& block : blocks_) {
    block.started = 0;
    block.outcome.reset();
    for (Piece& piece : block.pieces) piece.missing = 0;
    for (const std::size_t i : block.members) {
      const std::size_t first = places_[i].first;
      const auto end = first + static_cast<std::size_t>(parameters_[i].numel());
      for (std::size_t piece = first / block.piece; piece * block.piece < end; ++piece) ++block.pieces[piece].missing;
    }
  }
}

void GradientPieces::add(std::size_t i) {
  torch::NoGradGuard no_grad;
  Place& place = places_[i];
  TRIREME_CHECK(!place.there, "gradient {} was added twice", i);
  const torch::Tensor gradient = parameters_[i].grad();
  if (!gradient.defined()) {
    place.view.zero_();
  } else if (gradient.is_sparse()) {
    place.view.copy_(gradient.to_dense());
  } else if (gradient.data_ptr() != place.view.data_ptr()) {
    place.view.copy_(gradient);
  }
  place.there = true;
  added_any_ = true;
  Block& block = blocks_[place.block];
  const std::size_t end = place.first + static_cast<std::size_t>(parameters_[i].numel());
  for (std::size_t piece = place.first / block.piece; piece * block.piece < end; ++piece) --block.pieces[piece].missing;
  start_ready();
}

void GradientPieces::start_ready() {
  for (Block& block : blocks_) {
    for (; block.started < block.pieces.size(); ++block.started) {
      Piece& piece = block.pieces[block.started];
      if (piece.missing > 0) return;  // those behind wait as well: all ranks send in the same order
      start(block, piece);
    }
  }
}

void GradientPieces::start(Block& block, Piece& piece) {
  const bool compressed = piece.compressed != nullptr;
  if (!block.outcome) {
    block.outcome = negotiation_.start({.kind = OpRequest::Kind::kAllReduce,
                                        .dtype = block.dtype,
                                        .op = options_.op,
                                        .codec = compressed ? options_.compression.kind : codec::Kind::kNone,
                                        .ratio = options_.compression.ratio,
                                        .count = block.count,
                                        .piece = block.piece},
                                       "gradients");
  }
  std::byte* memory = block.memory.get() + piece.first * size_of(block.dtype);
  if (compressed) {
    piece.compressed->start({reinterpret_cast<float*>(memory), piece.count},
                            mix_seed(negotiation_.rounds(), piece.first));
  } else {
    piece.plain = collective::PendingOperation(
        negotiation_.ranks(),
        collective::all_reduce(collective::Array(block.dtype, memory, piece.count), {.op = options_.op}));
  }
}

void GradientPieces::finish() {
  torch::NoGradGuard no_grad;
  for (std::size_t i = parameters_.size(); i-- > 0;) {
    if (!places_[i].there) add(i);
  }
  for (Block& block : blocks_) {
    if (block.pieces.empty()) continue;
    for (Piece& piece : block.pieces) {
      piece.plain.wait();
      if (piece.compressed) piece.compressed->finish();
    }
    scale(block);
  }
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    torch::Tensor& gradient = parameters_[i].mutable_grad();
    const torch::Tensor& view = places_[i].view;
    if (parameters_[i].is_cpu()) {
      if (!gradient.defined() || gradient.is_sparse() || gradient.data_ptr() != view.data_ptr()) gradient = view;
    } else if (gradient.defined() && !gradient.is_sparse()) {
      gradient.copy_(view);
    } else {
      gradient = view.to(parameters_[i].device());
    }
  }
  begin_step();
}

/// A mean is over those that contributed; the collective divided by all ranks.
void GradientPieces::scale(Block& block) {
  const std::uint32_t contributors = block.outcome->contributors();
  const std::uint32_t ranks = negotiation_.ranks().size();
  if (options_.op == collective::ReduceOp::kSum || contributors == ranks) return;
  for (const std::size_t i : block.members) places_[i].view.mul_(static_cast<double>(ranks) / contributors);
}

}  // namespace trireme::dist
