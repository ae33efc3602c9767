# LibTorch and everything built on it. Its headers are precompiled once and shared by all users.
find_package(Torch REQUIRED)
message(STATUS "LibTorch ${Torch_VERSION} from ${TORCH_INSTALL_PREFIX}")

file(GLOB torch_sources CONFIGURE_DEPENDS trireme/models/*.cc trireme/train/*.cc)
if(torch_sources)
  add_library(trireme_torch STATIC ${torch_sources})
  target_include_directories(trireme_torch SYSTEM PUBLIC ${TORCH_INCLUDE_DIRS})
  target_link_libraries(trireme_torch PUBLIC trireme_core ${TORCH_LIBRARIES})
  target_precompile_headers(trireme_torch PRIVATE <torch/torch.h>)
  trireme_compile_together(trireme_torch)
  # Some LibTorch packages bring a copy of {fmt} of another version, and theirs is found first. Header-only, it needs no
  # library to match it.
  foreach(folder ${TORCH_INCLUDE_DIRS})
    if(EXISTS ${folder}/fmt/format.h AND NOT folder STREQUAL "/usr/include")
      target_compile_definitions(trireme_torch PUBLIC FMT_HEADER_ONLY)
    endif()
  endforeach()

  if(EXISTS ${CMAKE_SOURCE_DIR}/trireme/cli/worker_main.cc)
    add_executable(trireme-worker trireme/cli/worker_main.cc trireme/cli/train_flags.cc)
    target_link_libraries(trireme-worker PRIVATE trireme_torch CLI11::CLI11)
    target_precompile_headers(trireme-worker REUSE_FROM trireme_torch)
  endif()

  add_executable(trireme-torch-archive trireme/cli/torch_archive_main.cc trireme/cli/conversion_report.cc
    trireme/cli/bench_report.cc trireme/cli/table.cc)
  target_link_libraries(trireme-torch-archive PRIVATE trireme_torch)
  target_precompile_headers(trireme-torch-archive REUSE_FROM trireme_torch)

  file(GLOB examples CONFIGURE_DEPENDS examples/*.cc)
  foreach(source ${examples})
    get_filename_component(name ${source} NAME_WE)
    add_executable(${name} ${source})
    target_link_libraries(${name} PRIVATE trireme_torch)
    target_precompile_headers(${name} REUSE_FROM trireme_torch)
  endforeach()
endif()
