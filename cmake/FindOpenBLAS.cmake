# OpenBLAS's own CMake package is not everywhere, and leaves out the folder of its cblas.h on Debian.
# Defines OpenBLAS::OpenBLAS, OpenBLAS_FOUND, OpenBLAS_VERSION, and OpenBLAS_RUNTIME_NAME, which
# dlopen() takes: only a shared library is found. Look elsewhere with -DOpenBLAS_ROOT=/path. If there
# is pkg-config, it gives a hint.

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

# The name that the linker would write into a program; with its folder if the loader does not look
# there by itself.
set(OpenBLAS_RUNTIME_NAME "")
if(OpenBLAS_LIBRARY AND CMAKE_READELF)
  execute_process(COMMAND ${CMAKE_READELF} -d ${OpenBLAS_LIBRARY}
    OUTPUT_VARIABLE output ERROR_QUIET)
  if(output MATCHES "\\(SONAME\\)[^[]*\\[([^]]+)\\]")
    set(OpenBLAS_RUNTIME_NAME ${CMAKE_MATCH_1})
    get_filename_component(folder ${OpenBLAS_LIBRARY} DIRECTORY)
    if(NOT folder IN_LIST CMAKE_C_IMPLICIT_LINK_DIRECTORIES)
      set(OpenBLAS_RUNTIME_NAME ${folder}/${OpenBLAS_RUNTIME_NAME})
    endif()
  endif()
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(OpenBLAS
  REQUIRED_VARS OpenBLAS_LIBRARY OpenBLAS_INCLUDE_DIR OpenBLAS_RUNTIME_NAME VERSION_VAR OpenBLAS_VERSION)
if(OpenBLAS_FOUND AND NOT TARGET OpenBLAS::OpenBLAS)
  add_library(OpenBLAS::OpenBLAS UNKNOWN IMPORTED)
  set_target_properties(OpenBLAS::OpenBLAS PROPERTIES
    IMPORTED_LOCATION ${OpenBLAS_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${OpenBLAS_INCLUDE_DIR})
endif()
