#include "trireme/data/fashion_mnist.h"

#include <string>
#include <system_error>

#include "trireme/base/error.h"
#include "trireme/data/idx.h"

namespace trireme::data {
namespace {

std::filesystem::path find(const std::filesystem::path& folder, const std::string& name) {
  for (const char* ending : {"", ".gz"}) {
    std::error_code ignored;  // a folder we may not look into is as good as none
    const std::filesystem::path path = folder / (name + ending);
    if (std::filesystem::exists(path, ignored)) return path;
  }
  fail<IoError>(
      "Fashion-MNIST: neither {0} nor {0}.gz is in {1}; install Debian's package dataset-fashion-mnist, name the "
      "folder "
      "that holds the files with --data-dir, or train on generated data with --data synthetic",
      name, folder.string());
}

std::shared_ptr<const Dataset> load_part(const std::filesystem::path& folder, const std::string& part) {
  const std::filesystem::path images = find(folder, part + "-images-idx3-ubyte");
  const std::filesystem::path labels = find(folder, part + "-labels-idx1-ubyte");
  return load_idx(images, labels,
                  {.normalization = {.mean = 0.2860f, .std = 0.3530f}, .classes = 10, .shape = {1, 28, 28}});
}

}  // namespace

FashionMnist load_fashion_mnist(const std::filesystem::path& folder) {
  return {.train = load_part(folder, "train"), .test = load_part(folder, "t10k")};
}

}  // namespace trireme::data
