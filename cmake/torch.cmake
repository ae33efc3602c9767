# LibTorch and everything built on it. Its headers are precompiled once and shared by all users.
find_package(Torch REQUIRED)
message(STATUS "LibTorch ${Torch_VERSION} from ${TORCH_INSTALL_PREFIX}")

trireme_sources(torch_sources tensor models elastic dist train app tensor_parallel)
list(FILTER torch_sources EXCLUDE REGEX "/app/(mpi_)?worker_main.cc$")
list(APPEND torch_sources ${PROJECT_SOURCE_DIR}/src/cli/flags/worker_options.cc)
include(cmake/cuda.cmake)
# By itself, so that tests can have another one in its place.
set_source_files_properties(${PROJECT_SOURCE_DIR}/src/tensor/device/device_kernels_none.cc
  ${PROJECT_SOURCE_DIR}/src/tensor/device/products_none.cc PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
add_library(trireme_torch STATIC ${torch_sources})
add_library(Trireme::torch ALIAS trireme_torch)
trireme_library(trireme_torch torch)
target_link_libraries(trireme_torch PUBLIC trireme_launcher trireme_core
  PRIVATE $<BUILD_INTERFACE:trireme_internal> $<BUILD_INTERFACE:CLI11::CLI11>)
# First of the shared libraries: LibTorch from Python's packages exports some of std::filesystem, from an older compiler.
target_link_libraries(trireme_torch PUBLIC $<$<CXX_COMPILER_ID:GNU>:stdc++>)
if(TRIREME_WITH_CUDA)
  target_link_libraries(trireme_torch PUBLIC CUDA::cudart CUDA::cublasLt)
endif()
foreach(library ${TORCH_LIBRARIES})
  target_link_libraries(trireme_torch PUBLIC $<BUILD_INTERFACE:${library}>)
endforeach()
target_link_libraries(trireme_torch PUBLIC $<INSTALL_INTERFACE:Trireme::libtorch>)  # wherever it is then: TriremeConfig.cmake
target_include_directories(trireme_torch SYSTEM PUBLIC "$<BUILD_INTERFACE:${TORCH_INCLUDE_DIRS}>")
# Not <torch/torch.h>: GCC instantiates what a precompiled header leaves open in every file, which takes four seconds more.
target_precompile_headers(trireme_torch PRIVATE
  <torch/nn/module.h> <torch/autograd.h> <torch/optim/optimizer.h> <nlohmann/json.hpp> <fmt/format.h> "src/net/asio.h")
trireme_compile_together(trireme_torch 3)
# Some LibTorch packages bring a copy of {fmt} of another version, and theirs is found first. Header-only, it needs no
# library to match it.
foreach(folder ${TORCH_INCLUDE_DIRS})
  if(EXISTS ${folder}/fmt/format.h AND NOT folder STREQUAL "/usr/include")
    target_compile_definitions(trireme_torch PUBLIC FMT_HEADER_ONLY)
  endif()
endforeach()

add_executable(trireme-worker src/app/worker_main.cc)
target_link_libraries(trireme-worker PRIVATE trireme_torch trireme_flags)
target_precompile_headers(trireme-worker REUSE_FROM trireme_torch)
trireme_program(trireme-worker)

add_executable(trireme-torch-archive src/cli/model/torch_archive_main.cc src/cli/model/confinement.cc
  src/cli/ckpt/conversion_report.cc)
target_link_libraries(trireme-torch-archive PRIVATE trireme_torch trireme_flags)
target_precompile_headers(trireme-torch-archive REUSE_FROM trireme_torch)
set_source_files_properties(src/cli/model/confinement.cc src/cli/ckpt/conversion_report.cc PROPERTIES
  SKIP_PRECOMPILE_HEADERS ON)  # they are small, and see nothing of LibTorch
trireme_program(trireme-torch-archive)
