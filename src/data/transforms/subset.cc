#include <algorithm>
#include <numeric>
#include <utility>

#include "trireme/transforms.h"

#include "base/error.h"

namespace trireme::data {
namespace {

class Subset final : public Dataset {
 public:
  Subset(DatasetPtr source, std::vector<std::uint64_t> rows)
      : Dataset(source->schema()), source_(std::move(source)), rows_(std::move(rows)) {
    for (const std::uint64_t row : rows_) {
      if (row >= source_->size()) {
        fail<InvalidArgument>("row {} cannot be in a subset: {} has rows below {}", row, source_->describe(),
                              source_->size());
      }
    }
  }

  std::uint64_t size() const override { return rows_.size(); }
  std::string describe() const override { return fmt::format("{} samples out of {}", size(), source_->describe()); }

 private:
  void fill(std::span<const std::uint64_t> indices, Batch& out, std::uint64_t epoch) const override {
    std::vector<std::uint64_t> translated(indices.size());
    std::ranges::transform(indices, translated.begin(), [&](std::uint64_t index) { return rows_[index]; });
    source_->read(translated, out, epoch);
  }

  DatasetPtr source_;
  std::vector<std::uint64_t> rows_;
};

}  // namespace

DatasetPtr subset(DatasetPtr source, std::vector<std::uint64_t> rows) {
  return std::make_shared<Subset>(std::move(source), std::move(rows));
}

Split split_off_test(const DatasetPtr& whole, std::uint64_t every) {
  std::vector<std::uint64_t> train;
  std::vector<std::uint64_t> test;
  for (std::uint64_t i = 0; i < whole->size(); ++i) (i % every == every - 1 ? test : train).push_back(i);
  if (test.empty() || train.empty()) {
    fail<InvalidArgument>("{}: at least {} samples are needed to put every {}th aside for testing", whole->describe(),
                          std::max<std::uint64_t>(2, every), every);
  }
  return {.train = subset(whole, std::move(train)), .test = subset(whole, std::move(test))};
}

}  // namespace trireme::data
