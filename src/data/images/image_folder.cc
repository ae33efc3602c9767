#include <algorithm>
#include <map>
#include <utility>

#include "trireme/sources.h"

#include "base/error.h"
#include "data/files/random_access_file.h"
#include "data/images/image.h"

namespace trireme::data {
namespace {

struct ImageFile {
  std::filesystem::path path = {};
  std::int64_t label = 0;
};

bool is_image_file(const std::filesystem::path& path) {
  std::string kind = path.extension().string();
  std::ranges::transform(kind, kind.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return kind == ".png" || kind == ".jpg" || kind == ".jpeg";
}

Image read_image(const std::filesystem::path& path) {
  const RandomAccessFile file(path);
  std::vector<std::byte> bytes(file.size());
  file.read(0, bytes);
  return decode_image(bytes, path.string());
}

std::vector<std::string> find_classes(const std::filesystem::path& folder) {
  std::error_code problem;
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder, problem)) {
    if (entry.is_directory()) names.push_back(entry.path().filename().string());
  }
  if (problem) fail<IoError>("cannot read {}: {}", folder.string(), problem.message());
  std::ranges::sort(names);
  if (names.empty()) {
    fail<InvalidArgument>("{} has no sub-folders: the images of each class belong into one", folder.string());
  }
  return names;
}

std::vector<ImageFile> find_images(const std::filesystem::path& folder, const std::vector<std::string>& classes) {
  std::vector<ImageFile> files;
  for (std::size_t label = 0; label < classes.size(); ++label) {
    std::vector<std::filesystem::path> paths;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder / classes[label])) {
      if (entry.is_regular_file() && is_image_file(entry.path())) paths.push_back(entry.path());
    }
    std::ranges::sort(paths);
    for (std::filesystem::path& path : paths) {
      files.push_back({.path = std::move(path), .label = static_cast<std::int64_t>(label)});
    }
  }
  if (files.empty()) fail<InvalidArgument>("{} has no PNG or JPEG images in its sub-folders", folder.string());
  return files;
}

Schema images_schema(const ImageSize& size, std::vector<std::string> classes) {
  const auto count = static_cast<std::int64_t>(classes.size());
  return {{.name = "image", .dtype = DType::kU8, .shape = {3, size.height, size.width}},
          {.name = "label",
           .dtype = DType::kI64,
           .role = Role::kTarget,
           .classes = {count},
           .class_names = std::move(classes)}};
}

class ImageFolder final : public Dataset {
 public:
  ImageFolder(std::string name, std::vector<ImageFile> files, Schema schema, bool scaled)
      : Dataset(std::move(schema)), name_(std::move(name)), files_(std::move(files)), scaled_(scaled) {}

  std::uint64_t size() const override { return files_.size(); }
  std::string describe() const override { return name_ + ": " + summary(); }

 private:
  void fill(std::span<const std::uint64_t> indices, Batch& out, std::uint64_t /*epoch*/) const override {
    out.make_room(schema(), indices.size());
    const auto height = static_cast<std::uint32_t>(schema()[0].shape[1]);
    const auto width = static_cast<std::uint32_t>(schema()[0].shape[2]);
    std::uint8_t* to = out.values<std::uint8_t>(0).data();
    for (std::size_t i = 0; i < indices.size(); ++i, to += std::size_t{3} * height * width) {
      const ImageFile& file = files_[indices[i]];
      const Image image = read_image(file.path);
      if (!scaled_ && (image.height != height || image.width != width)) {
        fail<Corrupt>("{}: {}x{} pixels, but the first image has {}x{}: give a size to scale all to",
                      file.path.string(), image.height, image.width, height, width);
      }
      resize_to_planes(image, height, width, to);
      out.values<std::int64_t>(1)[i] = file.label;
    }
  }

  std::string name_;
  std::vector<ImageFile> files_;
  bool scaled_;
};

}  // namespace

DatasetPtr load_image_folder(const std::filesystem::path& folder, const ImageSize& size) {
  if (size.height < 0 || size.width < 0 || (size.height > 0) != (size.width > 0) || size.height > 65535 ||
      size.width > 65535) {
    fail<InvalidArgument>("images of {}x{}: give both, from 1 to 65535", size.height, size.width);
  }
  std::vector<std::string> classes = find_classes(folder);
  std::vector<ImageFile> files = find_images(folder, classes);
  ImageSize actual = size;
  if (size.height == 0) {
    const Image first = read_image(files.front().path);
    actual = {.height = first.height, .width = first.width};
  }
  return std::make_shared<ImageFolder>(folder.string(), std::move(files), images_schema(actual, std::move(classes)),
                                       size.height > 0);
}

}  // namespace trireme::data
