#include "tensor/device/products.h"

#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cublasLt.h>

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "base/error.h"
#include "base/mutex.h"
#include "cuda/check.h"

namespace trireme::device {
namespace {

void check(cublasStatus_t status, const char* what) {
  if (status != CUBLAS_STATUS_SUCCESS) fail<IoError>("the GPU could not {}: {}", what, cublasLtGetStatusString(status));
}

template <auto destroy>
struct Destroy {
  template <typename T>
  void operator()(T* object) const {
    destroy(object);
  }
};
template <typename Handle, auto destroy>
using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, Destroy<destroy>>;
using Description = Owned<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using Layout = Owned<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
using Preference = Owned<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;
using Event = Owned<cudaEvent_t, cudaEventDestroy>;

/// A product as cuBLAS sees it, whose matrices are columns after columns: ours are transposed to it. `out` is
/// rows × columns, the sum is over `depth`.
struct Shape {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t depth = 0;
  bool transposed_a = false;
  bool transposed_b = false;
  torch::ScalarType in = torch::kBFloat16;
  torch::ScalarType out = torch::kBFloat16;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  int device = 0;
  bool deterministic = false;

  auto key() const {
    return std::tuple(rows, columns, depth, transposed_a, transposed_b, in, out, static_cast<int>(epilogue), device,
                      deterministic);
  }
  bool operator<(const Shape& other) const { return key() < other.key(); }
};

struct Operands {
  torch::Tensor a;
  torch::Tensor b;
  torch::Tensor out;
  torch::Tensor bias = {};  ///< undefined: none
  torch::Tensor aux = {};   ///< what the epilogue keeps
};

cudaDataType_t native(torch::ScalarType type) {
  if (type == torch::kFloat32) return CUDA_R_32F;
  return type == torch::kHalf ? CUDA_R_16F : CUDA_R_16BF;
}

Layout layout(torch::ScalarType type, std::int64_t rows, std::int64_t columns) {
  cublasLtMatrixLayout_t made = nullptr;
  check(cublasLtMatrixLayoutCreate(&made, native(type), static_cast<std::uint64_t>(rows),
                                   static_cast<std::uint64_t>(columns), rows),
        "describe a matrix");
  return Layout(made);
}

bool capturing(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  cuda::check(cudaStreamIsCapturing(stream, &status), "say whether it records");
  return status != cudaStreamCaptureStatusNone;
}

/// Products of one shape. The algorithm is chosen when the first one is computed.
class Product {
 public:
  Product(cublasLtHandle_t library, const Shape& shape) : library_(library), shape_(shape) {
    cublasLtMatmulDesc_t description = nullptr;
    check(cublasLtMatmulDescCreate(&description, CUBLAS_COMPUTE_32F, CUDA_R_32F), "describe a product");
    description_.reset(description);
    set(CUBLASLT_MATMUL_DESC_TRANSA, shape.transposed_a ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_TRANSB, shape.transposed_b ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, shape.epilogue);
    a_ = shape.transposed_a ? layout(shape.in, shape.depth, shape.rows) : layout(shape.in, shape.rows, shape.depth);
    b_ = shape.transposed_b ? layout(shape.in, shape.columns, shape.depth)
                            : layout(shape.in, shape.depth, shape.columns);
    out_ = layout(shape.out, shape.rows, shape.columns);
  }

  void compute(const Operands& operands) {
    if (operands.bias.defined()) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, operands.bias.data_ptr());
    if (operands.aux.defined()) {
      set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, operands.aux.data_ptr());
      set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, shape_.rows);
    }
    const cudaStream_t stream = c10::cuda::getCurrentCUDAStream(static_cast<c10::DeviceIndex>(shape_.device)).stream();
    if (!settled_) choose(operands, stream);
    check(start(chosen_, operands, stream), "multiply matrices");
  }

 private:
  using Choice = cublasLtMatmulHeuristicResult_t;

  template <typename Value>
  void set(cublasLtMatmulDescAttributes_t attribute, const Value& value) {
    check(cublasLtMatmulDescSetAttribute(description_.get(), attribute, &value, sizeof(value)), "describe a product");
  }

  cublasStatus_t start(const Choice& choice, const Operands& operands, cudaStream_t stream) const {
    const float one = 1;
    const float zero = 0;
    torch::Tensor workspace;  // LibTorch's memory: it goes back to the stream that it was used on
    if (choice.workspaceSize > 0) {
      workspace =
          torch::empty({static_cast<std::int64_t>(choice.workspaceSize)}, operands.out.options().dtype(torch::kUInt8));
    }
    return cublasLtMatmul(library_, description_.get(), &one, operands.a.data_ptr(), a_.get(), operands.b.data_ptr(),
                          b_.get(), &zero, operands.out.data_ptr(), out_.get(), operands.out.data_ptr(), out_.get(),
                          &choice.algo, workspace.defined() ? workspace.data_ptr() : nullptr, choice.workspaceSize,
                          stream);
  }

  std::vector<Choice> candidates() const {
    constexpr std::size_t kWorkspace = 32u << 20;
    constexpr int kMost = 8;
    cublasLtMatmulPreference_t made = nullptr;
    check(cublasLtMatmulPreferenceCreate(&made), "say what it prefers");
    const Preference preference(made);
    check(cublasLtMatmulPreferenceSetAttribute(made, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &kWorkspace,
                                               sizeof(kWorkspace)),
          "say what it prefers");
    std::vector<Choice> found(kMost);
    int count = 0;
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
        library_, description_.get(), a_.get(), b_.get(), out_.get(), out_.get(), made, kMost, found.data(), &count);
    if (status != CUBLAS_STATUS_SUCCESS || count == 0) {
      fail<IoError>("the GPU has no way to multiply matrices of {} x {} x {}: {}", shape_.rows, shape_.depth,
                    shape_.columns, cublasLtGetStatusString(status));
    }
    found.resize(static_cast<std::size_t>(count));
    return found;
  }

  /// What is recorded cannot be measured: the first one will do until something is computed outside.
  void choose(const Operands& operands, cudaStream_t stream) {
    const std::vector<Choice> all = candidates();
    chosen_ = all.front();
    if (capturing(stream)) return;
    settled_ = true;
    if (shape_.deterministic) return;
    float least = std::numeric_limits<float>::infinity();
    for (const Choice& candidate : all) {
      const float milliseconds = measure(candidate, operands, stream);
      if (milliseconds >= least) continue;
      least = milliseconds;
      chosen_ = candidate;
    }
  }

  /// It is computed again and again, with the same result.
  float measure(const Choice& choice, const Operands& operands, cudaStream_t stream) const {
    constexpr int kTimes = 4;
    const Event before = event();
    const Event after = event();
    if (start(choice, operands, stream) != CUBLAS_STATUS_SUCCESS) return std::numeric_limits<float>::infinity();
    cuda::check(cudaEventRecord(before.get(), stream), "measure a product");
    for (int i = 0; i < kTimes; ++i) start(choice, operands, stream);
    cuda::check(cudaEventRecord(after.get(), stream), "measure a product");
    cuda::check(cudaEventSynchronize(after.get()), "measure a product");
    float milliseconds = 0;
    cuda::check(cudaEventElapsedTime(&milliseconds, before.get(), after.get()), "measure a product");
    return milliseconds;
  }

  static Event event() {
    cudaEvent_t made = nullptr;
    cuda::check(cudaEventCreate(&made), "measure a product");
    return Event(made);
  }

  cublasLtHandle_t library_;
  Shape shape_;
  Description description_;
  Layout a_;
  Layout b_;
  Layout out_;
  Choice chosen_{};
  bool settled_ = false;
};

/// All shapes that were seen. Lives as long as the process: CUDA may end before our static objects do.
class Products {
 public:
  static Products& get() {
    static auto* const products = new Products();
    return *products;
  }

  void compute(Shape shape, const Operands& operands) {
    const c10::cuda::CUDAGuard guard(operands.out.device());
    shape.device = operands.out.get_device();
    shape.deterministic = at::globalContext().deterministicAlgorithms();
    const MutexLock lock(mutex_);
    auto& product = known_[shape];
    if (!product) product = std::make_unique<Product>(library(shape.device), shape);
    product->compute(operands);
  }

 private:
  cublasLtHandle_t library(int device) TRIREME_REQUIRES(mutex_) {
    cublasLtHandle_t& handle = libraries_[device];
    if (handle == nullptr) check(cublasLtCreate(&handle), "start cuBLASLt");
    return handle;
  }

  Mutex mutex_;
  std::map<Shape, std::unique_ptr<Product>> known_ TRIREME_GUARDED_BY(mutex_);
  std::map<int, cublasLtHandle_t> libraries_ TRIREME_GUARDED_BY(mutex_);
};

torch::Tensor make(const torch::Tensor& like, std::int64_t rows, std::int64_t columns, torch::ScalarType type) {
  return torch::empty({rows, columns}, like.options().dtype(type).requires_grad(false));
}

/// input × weightᵀ.
Shape linear_shape(const torch::Tensor& input, const torch::Tensor& weight, cublasLtEpilogue_t epilogue) {
  return {.rows = weight.size(0),
          .columns = input.size(0),
          .depth = input.size(1),
          .transposed_a = true,
          .in = input.scalar_type(),
          .out = input.scalar_type(),
          .epilogue = epilogue};
}

}  // namespace

bool can_multiply(const torch::Tensor& input, std::int64_t outputs) {
  const auto type = input.scalar_type();
  return input.is_cuda() && (type == torch::kBFloat16 || type == torch::kHalf) && input.dim() == 2 &&
         input.is_contiguous() && input.numel() > 0 && outputs > 0 && input.size(0) % 8 == 0 &&
         input.size(1) % 8 == 0 && outputs % 8 == 0 && reinterpret_cast<std::uintptr_t>(input.data_ptr()) % 16 == 0;
}

torch::Tensor linear(const torch::Tensor& input, const torch::Tensor& weight, const torch::Tensor& bias) {
  const Operands operands{
      .a = weight, .b = input, .out = make(input, input.size(0), weight.size(0), input.scalar_type()), .bias = bias};
  const auto epilogue = bias.defined() ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
  Products::get().compute(linear_shape(input, weight, epilogue), operands);
  return operands.out;
}

Activated linear_gelu(const torch::Tensor& input, const torch::Tensor& weight, const torch::Tensor& bias) {
  const Operands operands{.a = weight,
                          .b = input,
                          .out = make(input, input.size(0), weight.size(0), input.scalar_type()),
                          .bias = bias,
                          .aux = make(input, input.size(0), weight.size(0), input.scalar_type())};
  Products::get().compute(linear_shape(input, weight, CUBLASLT_EPILOGUE_GELU_AUX_BIAS), operands);
  return {.before = operands.aux, .after = operands.out};
}

torch::Tensor input_gradient(const torch::Tensor& gradient, const torch::Tensor& weight) {
  const Operands operands{
      .a = weight, .b = gradient, .out = make(gradient, gradient.size(0), weight.size(1), gradient.scalar_type())};
  Products::get().compute({.rows = weight.size(1),
                           .columns = gradient.size(0),
                           .depth = gradient.size(1),
                           .in = gradient.scalar_type(),
                           .out = gradient.scalar_type()},
                          operands);
  return operands.out;
}

torch::Tensor weight_gradient(const torch::Tensor& gradient, const torch::Tensor& input) {
  const Operands operands{
      .a = input, .b = gradient, .out = make(gradient, gradient.size(1), input.size(1), torch::kFloat32)};
  Products::get().compute({.rows = input.size(1),
                           .columns = gradient.size(1),
                           .depth = gradient.size(0),
                           .transposed_b = true,
                           .in = gradient.scalar_type(),
                           .out = torch::kFloat32},
                          operands);
  return operands.out;
}

}  // namespace trireme::device
