# libdeflate has a CMake package of its own only since 1.15, and not all distributions ship it.
# Defines libdeflate::libdeflate, libdeflate_FOUND, libdeflate_VERSION; look elsewhere with
# -Dlibdeflate_ROOT=/path. pkg-config gives a hint where it is there.

find_package(PkgConfig QUIET)
if(PkgConfig_FOUND)
  pkg_check_modules(PC_libdeflate QUIET libdeflate)
endif()
find_path(libdeflate_INCLUDE_DIR libdeflate.h HINTS ${PC_libdeflate_INCLUDE_DIRS})
find_library(libdeflate_LIBRARY NAMES deflate libdeflate HINTS ${PC_libdeflate_LIBRARY_DIRS})
mark_as_advanced(libdeflate_INCLUDE_DIR libdeflate_LIBRARY)

if(libdeflate_INCLUDE_DIR)
  file(STRINGS ${libdeflate_INCLUDE_DIR}/libdeflate.h line
       REGEX "define LIBDEFLATE_VERSION_STRING[\t ]+\"")
  string(REGEX REPLACE ".*\"([^\"]*)\".*" "\\1" libdeflate_VERSION "${line}")
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(libdeflate
  REQUIRED_VARS libdeflate_LIBRARY libdeflate_INCLUDE_DIR VERSION_VAR libdeflate_VERSION)
if(libdeflate_FOUND AND NOT TARGET libdeflate::libdeflate)
  add_library(libdeflate::libdeflate UNKNOWN IMPORTED)
  set_target_properties(libdeflate::libdeflate PROPERTIES
    IMPORTED_LOCATION ${libdeflate_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${libdeflate_INCLUDE_DIR})
endif()
