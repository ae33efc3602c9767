#include <string>

#include "trireme/sources.h"

#include "base/error.h"

namespace trireme::data {
namespace {

DatasetPtr load_part(const Mirrors& folders, const std::string& part) {
  return load_idx(folders / (part + "-images-idx3-ubyte"), folders / (part + "-labels-idx1-ubyte"),
                  {.normalization = {.mean = 0.2860f, .std = 0.3530f}, .classes = 10, .shape = {1, 28, 28}});
}

}  // namespace

Split load_fashion_mnist(const Mirrors& folders) {
  try {
    return {.train = load_part(folders, "train"), .test = load_part(folders, "t10k")};
  } catch (const IoError& problem) {
    fail<IoError>(
        "Fashion-MNIST: {}; install Debian's package dataset-fashion-mnist, name the folder that holds the files with "
        "--data-dir, or train on generated data with --data synthetic",
        problem.what());
  }
}

}  // namespace trireme::data
