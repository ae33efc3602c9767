#include <algorithm>
#include <cstring>
#include <utility>

#include "trireme/transforms.h"

#include "base/error.h"
#include "base/random.h"

namespace trireme::data {
namespace {

class Changed final : public Dataset {
 public:
  Changed(DatasetPtr source, Change change, const MapOptions& options)
      : Dataset(source->schema()), source_(std::move(source)), change_(std::move(change)), options_(options) {}

  std::uint64_t size() const override { return source_->size(); }
  std::string describe() const override { return fmt::format("{}, {}", source_->describe(), options_.what); }

 private:
  void fill(std::span<const std::uint64_t> indices, Batch& out, std::uint64_t epoch) const override {
    source_->read(indices, out, epoch);
    for (std::size_t i = 0; i < indices.size(); ++i) {
      RandomStream random(mix_seed(options_.seed, epoch, indices[i]));
      Sample sample(out, i);
      change_(sample, random);
    }
  }

  DatasetPtr source_;
  Change change_;
  MapOptions options_;
};

class Made final : public Dataset {
 public:
  Made(DatasetPtr source, Schema schema, Make make, const MapOptions& options)
      : Dataset(std::move(schema)), source_(std::move(source)), make_(std::move(make)), options_(options) {
    for (const Field& field : this->schema().fields()) {
      if (field.varies()) fail<InvalidArgument>("a sample cannot be mapped to field '{}', which varies", field.name);
    }
  }

  std::uint64_t size() const override { return source_->size(); }
  std::string describe() const override {
    return fmt::format("{}, {} to {}", source_->describe(), options_.what, schema().describe());
  }

 private:
  void fill(std::span<const std::uint64_t> indices, Batch& out, std::uint64_t epoch) const override {
    Batch& read = out.scratch();
    source_->read(indices, read, epoch);
    out.make_room(schema(), indices.size());
    for (std::size_t i = 0; i < indices.size(); ++i) {
      RandomStream random(mix_seed(options_.seed, epoch, indices[i]));
      Sample from(read, i);
      Sample to(out, i);
      make_(from, to, random);
    }
  }

  DatasetPtr source_;
  Make make_;
  MapOptions options_;
};

struct ImageField {
  std::size_t field = 0;
  std::int64_t channels = 0;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
};

ImageField image_of(const Dataset& source, std::string_view name) {
  const std::size_t index = source.schema().index_of(name);
  const Field& field = source.schema()[index];
  if (field.dtype != DType::kF32 || field.shape.size() != 3 || field.varies()) {
    fail<InvalidArgument>("field '{}' is no image: expected floats of channels x rows x columns, found {}", name,
                          field.describe());
  }
  return {.field = index, .channels = field.shape[0], .rows = field.shape[1], .columns = field.shape[2]};
}

/// Moves a plane by (down, right); what comes in at the edges is 0.
void shift_plane(std::span<float> plane, const ImageField& image, std::int64_t down, std::int64_t right) {
  const auto row_of = [&](std::int64_t row) { return plane.data() + row * image.columns; };
  const auto shift_row = [&](std::int64_t row) {
    float* to = row_of(row);
    const std::int64_t from_row = row - down;
    if (from_row < 0 || from_row >= image.rows) {
      std::fill_n(to, image.columns, 0.0f);
      return;
    }
    const std::int64_t kept = image.columns - std::abs(right);
    const float* from = row_of(from_row) + std::max<std::int64_t>(0, -right);
    float* first = to + std::max<std::int64_t>(0, right);
    std::memmove(first, from, static_cast<std::size_t>(kept) * sizeof(float));
    std::fill(to, first, 0.0f);
    std::fill(first + kept, to + image.columns, 0.0f);
  };
  // In the order in which a row is read before it is overwritten.
  for (std::int64_t i = 0; i < image.rows; ++i) shift_row(down > 0 ? image.rows - 1 - i : i);
}

}  // namespace

DatasetPtr map(DatasetPtr source, Change change, const MapOptions& options) {
  return std::make_shared<Changed>(std::move(source), std::move(change), options);
}

DatasetPtr map(DatasetPtr source, Schema schema, Make make, const MapOptions& options) {
  return std::make_shared<Made>(std::move(source), std::move(schema), std::move(make), options);
}

DatasetPtr random_shift(DatasetPtr source, std::string_view field, std::int64_t pixels, std::uint64_t seed) {
  const ImageField image = image_of(*source, field);
  if (pixels < 1 || pixels >= std::min(image.rows, image.columns)) {
    fail<InvalidArgument>("images of {}x{} cannot be shifted by {} pixels", image.rows, image.columns, pixels);
  }
  const auto shift = [image, pixels](Sample& sample, RandomStream& random) {
    const std::span<float> all = sample.values<float>(image.field);
    const auto reach = static_cast<std::uint64_t>(2 * pixels + 1);
    const std::int64_t down = static_cast<std::int64_t>(random.below(reach)) - pixels;
    const std::int64_t right = static_cast<std::int64_t>(random.below(reach)) - pixels;
    const auto plane = static_cast<std::size_t>(image.rows * image.columns);
    for (std::size_t at = 0; at < all.size(); at += plane) shift_plane(all.subspan(at, plane), image, down, right);
  };
  return map(std::move(source), shift, {.seed = seed, .what = fmt::format("shifted by up to {} pixels", pixels)});
}

DatasetPtr random_mirror(DatasetPtr source, std::string_view field, std::uint64_t seed) {
  const ImageField image = image_of(*source, field);
  const auto mirror = [image](Sample& sample, RandomStream& random) {
    if (random.below(2) == 0) return;
    const std::span<float> all = sample.values<float>(image.field);
    const auto row = static_cast<std::size_t>(image.columns);
    for (std::size_t at = 0; at < all.size(); at += row) std::ranges::reverse(all.subspan(at, row));
  };
  return map(std::move(source), mirror, {.seed = mix_seed(seed, 1), .what = "mirrored at random"});
}

}  // namespace trireme::data
