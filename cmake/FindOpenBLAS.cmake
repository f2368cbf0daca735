# OpenBLAS's own CMake package is not everywhere, and leaves out the folder of its cblas.h on Debian.
# Defines OpenBLAS::OpenBLAS, OpenBLAS_FOUND, OpenBLAS_VERSION; look elsewhere with
# -DOpenBLAS_ROOT=/path. pkg-config gives a hint where it is there.

find_package(PkgConfig QUIET)
if(PkgConfig_FOUND)
  pkg_check_modules(PC_OpenBLAS QUIET openblas)
endif()
# Its cblas.h lies beside this one; a cblas.h elsewhere may be another library's.
find_path(OpenBLAS_INCLUDE_DIR openblas_config.h HINTS ${PC_OpenBLAS_INCLUDE_DIRS}
  PATH_SUFFIXES openblas)
find_library(OpenBLAS_LIBRARY openblas HINTS ${PC_OpenBLAS_LIBRARY_DIRS})
mark_as_advanced(OpenBLAS_INCLUDE_DIR OpenBLAS_LIBRARY)

set(OpenBLAS_VERSION "")
if(OpenBLAS_INCLUDE_DIR)
  file(STRINGS ${OpenBLAS_INCLUDE_DIR}/openblas_config.h line REGEX "define OPENBLAS_VERSION ")
  string(REGEX REPLACE ".*OpenBLAS ([0-9.]+).*" "\\1" OpenBLAS_VERSION "${line}")
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(OpenBLAS
  REQUIRED_VARS OpenBLAS_LIBRARY OpenBLAS_INCLUDE_DIR VERSION_VAR OpenBLAS_VERSION)
if(OpenBLAS_FOUND AND NOT TARGET OpenBLAS::OpenBLAS)
  add_library(OpenBLAS::OpenBLAS UNKNOWN IMPORTED)
  set_target_properties(OpenBLAS::OpenBLAS PROPERTIES
    IMPORTED_LOCATION ${OpenBLAS_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${OpenBLAS_INCLUDE_DIR})
endif()
