#include "train/row_parts.h"

#include <algorithm>

namespace trireme {
namespace {

constexpr std::size_t kMostParts = 4096;  // if a chief takes no rows for a while, the oldest go

}  // namespace

void RowParts::add(Step step, Lane first, const std::vector<LaneStatistics>& lanes, double lr, double began,
                   double ended) {
  const Step row = step / log_every_;
  for (Lane i = 0; i < lanes.size(); ++i) {
    const auto [at, is_new] = parts_.try_emplace({row, first + i});
    cluster::RowPart& part = at->second;
    if (is_new) part = {.row = row, .lane = first + i, .first = step, .last = step, .began = began};
    part.first = std::min(part.first, step);
    if (step >= part.last) part.lr = lr;
    part.last = std::max(part.last, step);
    part.ended = ended;
    ++part.steps;
    part.samples += lanes[i].samples;
    part.loss_sum += lanes[i].loss_sum;
    trireme::add(part.metrics, lanes[i].metrics);
  }
  while (parts_.size() > kMostParts) parts_.erase(parts_.begin());
}

void RowParts::forget(Step step) {
  std::erase_if(
      parts_, [&](const auto& part) { return part.second.last < step && (part.first.first + 1) * log_every_ <= step; });
}

std::vector<cluster::RowPart> RowParts::all() const {
  std::vector<cluster::RowPart> all;
  for (const auto& [key, part] : parts_) all.push_back(part);
  return all;
}

}  // namespace trireme
