# hwloc has no CMake package of its own. Defines hwloc::hwloc, hwloc_FOUND, hwloc_VERSION; look
# elsewhere with -Dhwloc_ROOT=/path. pkg-config gives a hint where it is there.

find_package(PkgConfig QUIET)
if(PkgConfig_FOUND)
  pkg_check_modules(PC_hwloc QUIET hwloc)
endif()
find_path(hwloc_INCLUDE_DIR hwloc.h HINTS ${PC_hwloc_INCLUDE_DIRS})
find_library(hwloc_LIBRARY hwloc HINTS ${PC_hwloc_LIBRARY_DIRS})
mark_as_advanced(hwloc_INCLUDE_DIR hwloc_LIBRARY)

# Debian keeps the generated header, which holds the version, in the architecture's folder.
find_file(hwloc_CONFIG hwloc/autogen/config.h HINTS ${hwloc_INCLUDE_DIR} ${PC_hwloc_INCLUDE_DIRS})
mark_as_advanced(hwloc_CONFIG)
if(hwloc_CONFIG)
  file(STRINGS ${hwloc_CONFIG} line REGEX "define HWLOC_VERSION \"")
  string(REGEX REPLACE ".*\"([^\"]*)\".*" "\\1" hwloc_VERSION "${line}")
else()
  set(hwloc_VERSION "${PC_hwloc_VERSION}")
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(hwloc
  REQUIRED_VARS hwloc_LIBRARY hwloc_INCLUDE_DIR VERSION_VAR hwloc_VERSION)
if(hwloc_FOUND AND NOT TARGET hwloc::hwloc)
  add_library(hwloc::hwloc UNKNOWN IMPORTED)
  set_target_properties(hwloc::hwloc PROPERTIES
    IMPORTED_LOCATION ${hwloc_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${hwloc_INCLUDE_DIR})
endif()
