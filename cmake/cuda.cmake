# Our kernels for GPUs (src/cuda), where LibTorch knows GPUs and there is a CUDA compiler. They become a part of
# trireme_torch. Compiled by a command of their own: our flags are not nvcc's.
find_package(CUDAToolkit QUIET)
set(cuda_found OFF)
if(CUDAToolkit_FOUND AND CUDAToolkit_NVCC_EXECUTABLE AND TARGET torch_cuda)
  set(cuda_found ON)
endif()
# Without it gradients and updates of GPUs go through the host's memory.
option(TRIREME_WITH_CUDA "Build our kernels for GPUs into trireme_torch" ${cuda_found})
set(TRIREME_CUDA_ARCHITECTURES "80;90" CACHE STRING "GPUs that they are compiled for; later ones compile them when they start")
if(NOT TRIREME_WITH_CUDA)
  message(STATUS "Without kernels for GPUs (-DTRIREME_WITH_CUDA=ON; possible here: ${cuda_found})")
  list(FILTER torch_sources EXCLUDE REGEX "/(device_kernels|products|work_graph).cc$")
  return()
endif()
if(NOT cuda_found)
  message(FATAL_ERROR "TRIREME_WITH_CUDA: nvcc (found: ${CUDAToolkit_NVCC_EXECUTABLE}) and a LibTorch with CUDA are needed")
endif()
list(FILTER torch_sources EXCLUDE REGEX "/(device_kernels|products|work_graph)_none.cc$")
set(targets)
foreach(architecture ${TRIREME_CUDA_ARCHITECTURES})
  list(APPEND targets -gencode arch=compute_${architecture},code=sm_${architecture})
endforeach()
list(GET TRIREME_CUDA_ARCHITECTURES -1 newest)
list(APPEND targets -gencode arch=compute_${newest},code=compute_${newest})
file(GLOB kernels CONFIGURE_DEPENDS src/cuda/*.cu)
file(GLOB kernel_headers CONFIGURE_DEPENDS src/cuda/*.h src/optim/rule_math.h)
foreach(kernel ${kernels})
  cmake_path(GET kernel STEM name)
  set(object ${PROJECT_BINARY_DIR}/cuda/${name}.o)
  set(flags)
  if(name STREQUAL update)
    set(flags -fmad=false)  # the bits of the CPU's
  endif()
  add_custom_command(OUTPUT ${object}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${PROJECT_BINARY_DIR}/cuda
    COMMAND ${CUDAToolkit_NVCC_EXECUTABLE} -ccbin ${CMAKE_CXX_COMPILER} -std=c++20 -O3 --expt-relaxed-constexpr -Xcompiler -fPIC
      -lineinfo ${flags} ${targets} -I${PROJECT_SOURCE_DIR}/include -I${PROJECT_SOURCE_DIR}/src -I${PROJECT_BINARY_DIR}/include
      -c ${kernel} -o ${object}
    DEPENDS ${kernel} ${kernel_headers} COMMENT "Compiling kernels: ${name}" VERBATIM)
  list(APPEND torch_sources ${object})
  set_source_files_properties(${object} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
endforeach()
message(STATUS "With kernels for GPUs: nvcc ${CUDAToolkit_VERSION}, architectures ${TRIREME_CUDA_ARCHITECTURES}")
