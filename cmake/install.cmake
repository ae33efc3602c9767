# What `cmake --install` puts where, and the CMake package by which other projects find it. All paths are relative to the
# prefix, so that what is installed can be moved.
#
#   bin/trireme             the command
#   libexec/trireme/        programs that it starts itself (src/launch/companion.cc knows the way)
#   include/trireme/        the public headers
#   lib/, lib/cmake/Trireme the libraries; find_package(Trireme COMPONENTS core torch mpi nccl)
#   share/                  manual page, completions, license

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

get_property(libraries GLOBAL PROPERTY TRIREME_LIBRARIES)
get_property(programs GLOBAL PROPERTY TRIREME_PROGRAMS)
set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/Trireme)

# Programs.
foreach(program ${programs})
  # LibTorch from a folder of its own is found there by what is installed, too.
  set_target_properties(${program} PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
endforeach()
set(helpers ${programs})
list(REMOVE_ITEM helpers trireme trireme-mpi-worker)
install(TARGETS trireme RUNTIME DESTINATION bin COMPONENT programs)
if(helpers)
  install(TARGETS ${helpers} RUNTIME DESTINATION libexec/trireme COMPONENT programs)
endif()
if(TARGET trireme-mpi-worker)  # a package of its own: nobody else needs an MPI
  install(TARGETS trireme-mpi-worker RUNTIME DESTINATION libexec/trireme COMPONENT mpi)
endif()

# Libraries. Each is an export of its own, so that who wants the core alone need not have LibTorch.
set(components)
foreach(library ${libraries})
  get_target_property(component ${library} EXPORT_NAME)
  list(APPEND components ${component})
  install(TARGETS ${library} EXPORT trireme_${component}
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
  install(EXPORT trireme_${component} NAMESPACE Trireme:: FILE Trireme-${component}.cmake
    DESTINATION ${package_folder} COMPONENT development)
endforeach()

if(TARGET trireme_torch)  # it links the launcher, which is no component of its own
  install(TARGETS trireme_launcher EXPORT trireme_torch ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
endif()

install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/ ${PROJECT_BINARY_DIR}/include/ DESTINATION include
  COMPONENT development FILES_MATCHING PATTERN "*.h")

set(TRIREME_COMPONENTS ${components})
configure_package_config_file(cmake/TriremeConfig.cmake.in ${PROJECT_BINARY_DIR}/cmake/TriremeConfig.cmake
  INSTALL_DESTINATION ${package_folder} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/cmake/TriremeConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/cmake/TriremeConfig.cmake ${PROJECT_BINARY_DIR}/cmake/TriremeConfigVersion.cmake
  DESTINATION ${package_folder} COMPONENT development)

# Manual page and completions: the command writes them, so that they tell all its flags.
function(trireme_docs kind file folder)
  set(written ${PROJECT_BINARY_DIR}/docs/${kind}/${file})
  add_custom_command(OUTPUT ${written} DEPENDS trireme VERBATIM COMMENT "Writing ${file} (${kind})"
    COMMAND ${CMAKE_COMMAND} -E make_directory ${PROJECT_BINARY_DIR}/docs/${kind}
    COMMAND trireme docs ${kind} > ${written})
  install(FILES ${written} DESTINATION ${folder} COMPONENT programs)
  set_property(GLOBAL APPEND PROPERTY TRIREME_DOCS ${written})
endfunction()
trireme_docs(man trireme.1 share/man/man1)
trireme_docs(bash trireme share/bash-completion/completions)
trireme_docs(zsh _trireme share/zsh/site-functions)
trireme_docs(fish trireme.fish share/fish/vendor_completions.d)
get_property(docs GLOBAL PROPERTY TRIREME_DOCS)
add_custom_target(trireme-docs ALL DEPENDS ${docs})

# Named as Debian wants it.
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION share/doc/trireme RENAME copyright COMPONENT programs)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION share/doc/libtrireme-dev RENAME copyright COMPONENT development)

if(PROJECT_IS_TOP_LEVEL)
  include(cmake/package.cmake)
endif()
