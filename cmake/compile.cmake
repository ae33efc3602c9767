# How our own code is compiled. Nothing here changes a variable or a flag of a project that Trireme is a part of.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
# No symbol of ours is replaced by another library's: calls inside a library need no detour.
add_compile_options(-fno-semantic-interposition)
add_compile_options(-fPIC)  # libraries may become part of a shared one; the same everywhere, for precompiled headers

if(PROJECT_IS_TOP_LEVEL)
  if(NOT CMAKE_BUILD_TYPE)
    set(CMAKE_BUILD_TYPE Release)
  endif()
  set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
  set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
  set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)

  find_program(CCACHE ccache)
  mark_as_advanced(CCACHE)
  if(CCACHE)
    # Without the first ccache does not look past a precompiled header; with the second, clones share what was compiled.
    set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
      CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} ${CCACHE})
  endif()

  include(CheckLinkerFlag)
  check_linker_flag(CXX -fuse-ld=gold TRIREME_HAS_GOLD)
  if(TRIREME_HAS_GOLD AND NOT TRIREME_SANITIZE)
    add_link_options(-fuse-ld=gold)  # forty programs are linked after each change: it takes a quarter of the time
  endif()

  if(TRIREME_WERROR)
    add_compile_options(-Werror)
  endif()
  add_compile_options(-Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor
    -Wno-missing-field-initializers)  # designated initialisers leave defaults out on purpose
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_compile_options("SHELL:--param ggc-min-heapsize=1500000")  # to collect garbage takes longer than to keep it
    add_compile_options(-Wno-restrict -Wno-maybe-uninitialized)  # false alarms inside libstdc++ 12 (GCC bug 105651)
  endif()
  if(TRIREME_SANITIZE)
    add_compile_options(-O1 -fsanitize=${TRIREME_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all -g1)
    add_link_options(-fsanitize=${TRIREME_SANITIZE})
    if(TRIREME_SANITIZE MATCHES thread)
      add_compile_options(-Wno-tsan)  # fences: used between processes, where ThreadSanitizer sees nothing anyway
    endif()
  endif()
  if(TRIREME_FUZZ)
    if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
      message(FATAL_ERROR "TRIREME_FUZZ needs Clang, whose libFuzzer it uses: -DCMAKE_CXX_COMPILER=clang++-16")
    endif()
    add_compile_options(-fsanitize=fuzzer-no-link)  # what libFuzzer is told of the paths an input takes
    # nlohmann's JSON casts a float in the place of an integer, whatever its size; GCC's sanitizer does not look at that.
    # The number is a peer's: nobody believes it.
    add_compile_options(-fno-sanitize=float-cast-overflow)
  endif()
else()
  add_compile_options(-w)  # whoever uses Trireme wants to read the warnings of their own code
endif()

# All sources of these folders of src/, subfolders included.
function(trireme_sources result)
  set(sources)
  foreach(folder ${ARGN})
    file(GLOB_RECURSE found CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${folder}/*.cc)
    list(APPEND sources ${found})
  endforeach()
  set(${result} ${sources} PARENT_SCOPE)
endfunction()

# A library that others can link: `Trireme::<component>`, with the headers of include/ and nothing else.
function(trireme_library target component)
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${component})
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_include_directories(${target} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/include>
    $<INSTALL_INTERFACE:include>)
  set_property(GLOBAL APPEND PROPERTY TRIREME_LIBRARIES ${target})
endfunction()

# A program that belongs to the command.
function(trireme_program target)
  set_property(GLOBAL APPEND PROPERTY TRIREME_PROGRAMS ${target})
endfunction()

# What headers instantiate takes longer than our own code; several files at a time do it once. How many is a balance:
# larger groups make a whole build faster, and that of a small change slower.
option(TRIREME_UNITY "Compile files in groups, which halves the time of a whole build" ON)
# Where nobody changes Trireme, only the whole build counts.
set(scale 4)
if(PROJECT_IS_TOP_LEVEL)
  set(scale 1)
endif()
set(TRIREME_UNITY_SCALE ${scale} CACHE STRING "How many times larger than usual these groups are")
function(trireme_compile_together target files)
  if(NOT TRIREME_UNITY)
    return()
  endif()
  math(EXPR files "${TRIREME_UNITY_SCALE} * ${files}")
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${files})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # It takes a group's files for headers; and false alarms of GCC 12 on short strings.
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage -Wno-array-bounds -Wno-stringop-overflow)
  endif()
endfunction()
