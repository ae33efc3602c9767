#pragma once

#include "data/dataset.h"
#include "data/mirrors.h"

namespace trireme::data {

using FashionMnist = Split;

/// Zalando's Fashion-MNIST (Xiao et al. 2017): 60000 training and 10000 test images of 1x28x28 in 10 classes,
/// normalised by the training set's own mean and deviation.
///
/// Reads `train-images-idx3-ubyte`, `train-labels-idx1-ubyte`, `t10k-images-idx3-ubyte` and `t10k-labels-idx1-ubyte`
/// from the first of `folders` where it is sound, each with or without `.gz`; any set of 28x28 images in that layout
/// will do. Throws IoError that says how to get the data if a file cannot be read, else as load_idx.
FashionMnist load_fashion_mnist(const Mirrors& folders = "/usr/share/datasets/fashion-mnist");

}  // namespace trireme::data
