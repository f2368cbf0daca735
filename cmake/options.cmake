# Options that a user may set at configure time.

set(SHARDSTREAM_CUDA AUTO CACHE STRING "CUDA backend: AUTO (if nvcc is found), ON or OFF")
set_property(CACHE SHARDSTREAM_CUDA PROPERTY STRINGS AUTO ON OFF)
set(SHARDSTREAM_SANITIZE "" CACHE STRING "Sanitizers to build with: thread, or address,undefined")
set(SHARDSTREAM_TESTS ON CACHE STRING
  "Tests to build: ON, OFF, or GPU (programs that need CUDA, and scripts, beside a host build)")
set_property(CACHE SHARDSTREAM_TESTS PROPERTY STRINGS ON OFF GPU)
option(SHARDSTREAM_PTX_COMPILER
  "Link the PTX compiler library, for one row of bench runtime-compile; adds 35 MB" OFF)
option(SHARDSTREAM_WERROR "Treat warnings as errors" OFF)
option(SHARDSTREAM_PCH "Precompile headers that most sources include" ON)
option(SHARDSTREAM_UNITY "Compile a few sources of a target together: OFF to work at them" ON)

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()
# An installed program finds libraries in the folder lib beside its own, wherever that is, and those
# outside the system's folders, such as NCCL, by the path at which it was linked with them.
include(GNUInstallDirs)
set(CMAKE_INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
