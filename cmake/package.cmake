# Debian packages (cpack -G DEB): trireme (the programs) and libtrireme-dev (libraries, headers, CMake package).

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME trireme)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_VENDOR Trireme)
set(CPACK_PACKAGE_CONTACT "The Trireme authors <trireme@localhost>")
set(CPACK_PACKAGE_CHECKSUM SHA256)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_ALL programs development)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

set(CPACK_DEBIAN_PROGRAMS_PACKAGE_NAME trireme)
set(CPACK_DEBIAN_PROGRAMS_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PROGRAMS_PACKAGE_SHLIBDEPS ON)
set(CPACK_COMPONENT_PROGRAMS_DESCRIPTION "The trireme command trains neural networks on many processes and machines,
through parameter servers or by all-reduce, and goes on when some of them die.")

# What a program that links the static libraries needs to build.
set(development_packages libssl-dev zlib1g-dev libfmt-dev libspdlog-dev nlohmann-json3-dev)
set(programs_recommended)
if(TRIREME_WITH_SQLITE)
  list(APPEND development_packages libsqlite3-dev)
endif()
if(TARGET trireme_torch)
  list(APPEND development_packages libtorch-dev)
  list(APPEND programs_recommended libopenblas0-pthread dataset-fashion-mnist)
endif()
if(TARGET trireme_mpi)
  list(APPEND development_packages libopenmpi-dev)
endif()
list(JOIN development_packages ", " CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS)
list(JOIN programs_recommended ", " CPACK_DEBIAN_PROGRAMS_PACKAGE_RECOMMENDS)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libtrireme-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_RECOMMENDS "trireme (= ${PROJECT_VERSION})")
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION "Static libraries, headers and the CMake package of Trireme, for programs
of one's own that train on many processes and machines.")

include(CPack)
