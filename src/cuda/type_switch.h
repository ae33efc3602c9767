#pragma once

#include "cuda/number.h"
#include "cuda/type.h"

namespace trireme::cuda {

/// Calls `work` with a value of the C++ type that `type` stands for.
template <typename Work>
void with_type(Type type, Work work) {
  switch (type) {
    case Type::kFloat:
      return work(float{});
    case Type::kBfloat16:
      return work(__nv_bfloat16{});
    case Type::kHalf:
      return work(__half{});
  }
}

}  // namespace trireme::cuda
