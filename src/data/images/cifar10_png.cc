#include <algorithm>
#include <cstring>

#include <nlohmann/json.hpp>

#include "trireme/sources.h"

#include "base/error.h"
#include "base/file.h"
#include "data/images/image.h"

namespace trireme::data {
namespace {

constexpr std::size_t kSide = 32;
constexpr std::size_t kPlane = kSide * kSide;
const std::vector<std::string> kCifarClasses = {"airplane", "automobile", "bird",  "cat",  "deer",
                                                "dog",      "frog",       "horse", "ship", "truck"};

std::vector<std::int64_t> read_labels(const std::filesystem::path& path) {
  try {
    return nlohmann::json::parse(read_file(path)).get<std::vector<std::int64_t>>();
  } catch (const nlohmann::json::exception& problem) {
    fail<Corrupt>("{}: expected a list of labels: {}", path.string(), problem.what());
  }
}

/// Appends the images of a file: a row of 1024 pixels is an image, its rows one after the other.
void read_rows(const std::filesystem::path& path, std::vector<std::uint8_t>& planes) {
  const std::string bytes = read_file(path);
  const Image image = decode_png(as_bytes(bytes), path.string());
  if (image.width != kPlane) {
    fail<Corrupt>("{}: rows of {} pixels, expected {}: one image each", path.string(), image.width, kPlane);
  }
  const std::size_t begin = planes.size();
  planes.resize(begin + image.pixels.size());
  for (std::size_t row = 0; row < image.height; ++row) {
    const std::uint8_t* from = image.pixels.data() + row * 3 * kPlane;
    std::uint8_t* to = planes.data() + begin + row * 3 * kPlane;
    for (std::size_t i = 0; i < kPlane; ++i) {
      for (std::size_t colour = 0; colour < 3; ++colour) to[colour * kPlane + i] = from[3 * i + colour];
    }
  }
}

DatasetPtr load_part(const std::filesystem::path& folder, const std::vector<std::string>& files,
                     const std::string& labels_file) {
  std::vector<std::int64_t> labels = read_labels(folder / labels_file);
  std::vector<std::uint8_t> planes;
  for (const std::string& file : files) read_rows(folder / file, planes);
  if (planes.size() != labels.size() * 3 * kPlane) {
    fail<Corrupt>("{}: {} labels for {} images", (folder / labels_file).string(), labels.size(),
                  planes.size() / (3 * kPlane));
  }
  Column label = data::label("label", std::move(labels), 10);
  label.field.class_names = kCifarClasses;
  return in_memory(folder.string(), {input("image", std::move(planes), {3, kSide, kSide}), std::move(label)});
}

}  // namespace

Split load_cifar10_png(const std::filesystem::path& folder) {
  std::vector<std::string> train;
  for (int i = 1; i <= 5; ++i) train.push_back(fmt::format("data_batch_{}.png", i));
  return {.train = load_part(folder, train, "train_lables.json"),  // spelled like that
          .test = load_part(folder, {"test_batch.png"}, "test_lables.json")};
}

}  // namespace trireme::data
