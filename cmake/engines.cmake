# Engines of others behind collective::Backend: MPI and NCCL. Each is a library of its own, where it is found.

find_package(MPI QUIET COMPONENTS CXX)
option(TRIREME_WITH_MPI "Build the MPI engine of the collectives (trireme_mpi)" ${MPI_CXX_FOUND})
if(TRIREME_WITH_MPI)
  find_package(MPI REQUIRED COMPONENTS CXX)
  file(GLOB mpi_sources CONFIGURE_DEPENDS src/collective/mpi/*.cc)
  add_library(trireme_mpi STATIC ${mpi_sources})
  target_compile_definitions(trireme_mpi PUBLIC OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX)  # the C++ bindings MPI has given up
  add_library(Trireme::mpi ALIAS trireme_mpi)
  trireme_library(trireme_mpi mpi)
  target_link_libraries(trireme_mpi PUBLIC trireme_core MPI::MPI_CXX PRIVATE $<BUILD_INTERFACE:trireme_internal>)
else()
  message(STATUS "Without the MPI engine: no MPI found (Debian: libopenmpi-dev openmpi-bin)")
endif()

find_package(CUDAToolkit QUIET)
find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS} ENV NCCL_HOME PATH_SUFFIXES include)
find_library(NCCL_LIBRARY NAMES nccl libnccl.so.2 HINTS ${CUDAToolkit_LIBRARY_DIR} ENV NCCL_HOME PATH_SUFFIXES lib lib64)
set(nccl_found OFF)
if(CUDAToolkit_FOUND AND NCCL_INCLUDE_DIR AND NCCL_LIBRARY)
  set(nccl_found ON)
endif()
option(TRIREME_WITH_NCCL "Build the NCCL engine of the collectives (trireme_nccl)" ${nccl_found})
if(TRIREME_WITH_NCCL)
  if(NOT nccl_found)
    message(FATAL_ERROR "TRIREME_WITH_NCCL: CUDA (found: ${CUDAToolkit_FOUND}), nccl.h (${NCCL_INCLUDE_DIR}) and "
      "libnccl (${NCCL_LIBRARY}) are needed; set CUDAToolkit_ROOT, NCCL_INCLUDE_DIR and NCCL_LIBRARY")
  endif()
  file(GLOB nccl_sources CONFIGURE_DEPENDS src/collective/nccl/*.cc)
  add_library(trireme_nccl STATIC ${nccl_sources})
  add_library(Trireme::nccl ALIAS trireme_nccl)
  trireme_library(trireme_nccl nccl)
  target_include_directories(trireme_nccl SYSTEM PRIVATE ${NCCL_INCLUDE_DIR})
  target_link_libraries(trireme_nccl PUBLIC trireme_core
    PRIVATE CUDA::cudart $<BUILD_INTERFACE:${NCCL_LIBRARY}> $<INSTALL_INTERFACE:Trireme::libnccl>
    $<BUILD_INTERFACE:trireme_internal>)
else()
  message(STATUS "Without the NCCL engine: no CUDA with NCCL found (Debian non-free: nvidia-cuda-toolkit libnccl-dev; "
    "or NVIDIA's own packages, or NCCL_HOME)")
endif()
