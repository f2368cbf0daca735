# A component is one folder of src/ or kernels/ and one static library. It may include itself
# and the components in USES, recursively; tests/unit/check_includes checks the sources.

# Contraction to fma would give different bits from the same source on another backend.
set(SHARDSTREAM_CXX_FLAGS -ffp-contract=off)
# CMake 3.25 rejects CUDA_STANDARD 20 with nvcc 13.
set(SHARDSTREAM_CUDA_FLAGS -std=c++20 -fmad=false)
set(SHARDSTREAM_SANITIZE_FLAGS "")
if(SHARDSTREAM_SANITIZE)
  set(SHARDSTREAM_SANITIZE_FLAGS -fsanitize=${SHARDSTREAM_SANITIZE} -fno-sanitize-recover=all)
endif()

# Sources that are compiled together share what their headers instantiate, which takes most of the
# time of a build. Their names in namespaces without a name must differ.
set(CMAKE_UNITY_BUILD ${SHARDSTREAM_UNITY})
set(CMAKE_UNITY_BUILD_BATCH_SIZE 8)

add_library(shardstream_flags INTERFACE)
target_compile_features(shardstream_flags INTERFACE cxx_std_20)
set(warnings -Wall -Wextra -Wnon-virtual-dtor -Woverloaded-virtual -Wpedantic)
if(SHARDSTREAM_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  # A local name may be that of another source. The compiler takes a source for a header, which
  # should have no members of types from namespaces without a name.
  list(APPEND warnings -Wshadow=local -Wno-subobject-linkage)
else()
  list(APPEND warnings -Wshadow)
endif()
target_compile_options(shardstream_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:${warnings};${SHARDSTREAM_CXX_FLAGS}>
  $<$<COMPILE_LANGUAGE:CUDA>:${SHARDSTREAM_CUDA_FLAGS};-Xcompiler=-Wall,-Wextra,-Wshadow>)
if(SHARDSTREAM_WERROR)
  target_compile_options(shardstream_flags INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-Werror> $<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings>)
endif()
if(SHARDSTREAM_PCH AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  # A precompiled header that does not fit a target's flags is ignored, with a warning.
  target_compile_options(shardstream_flags INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-Wno-error=invalid-pch>)
  if(CMAKE_CXX_COMPILER_LAUNCHER MATCHES "ccache$")  # what its manual asks for
    target_compile_options(shardstream_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>)
    list(PREPEND CMAKE_CXX_COMPILER_LAUNCHER env CCACHE_SLOPPINESS=pch_defines,time_macros)
  endif()
endif()
if(SHARDSTREAM_SANITIZE)
  target_compile_options(shardstream_flags INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:${SHARDSTREAM_SANITIZE_FLAGS};-fno-omit-frame-pointer;-g1>)
  target_link_options(shardstream_flags INTERFACE ${SHARDSTREAM_SANITIZE_FLAGS})
endif()

# Code that runs once, such as a command line or a report, compiles a third faster at -O1.
set(SHARDSTREAM_COLD_OPTIONS $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release>>:-O1>)

# Headers that most sources include, compiled once for all targets with the same flags. They save
# time only: every source includes what it uses, and compiles without them (SHARDSTREAM_PCH=OFF).
# nlohmann/json.hpp is not among them, since it would cost every source more than the few save.
set(SHARDSTREAM_PRECOMPILED <algorithm> <array> <chrono> <cmath> <filesystem> <functional> <map>
  <memory> <optional> <set> <span> <string> <string_view> <vector> <fmt/format.h>)

# shardstream_precompile(NAME HEADERS header... [LINKS library...] [OPTIONS option...])
# An object library that owns the precompiled headers. A target that reuses them needs the same
# flags, and the definitions that concern these headers.
function(shardstream_precompile name)
  if(NOT SHARDSTREAM_PCH)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "HEADERS;LINKS;OPTIONS")
  set(source ${PROJECT_BINARY_DIR}/generated/${name}.cpp)
  file(CONFIGURE OUTPUT ${source} CONTENT "// Owns precompiled headers.\n")
  add_library(${name} OBJECT ${source})
  target_link_libraries(${name} PRIVATE shardstream_flags ${arg_LINKS})
  target_compile_options(${name} PRIVATE ${arg_OPTIONS})
  target_precompile_headers(${name} PRIVATE ${arg_HEADERS})
endfunction()
function(shardstream_reuse_precompiled target owner)
  if(SHARDSTREAM_PCH)
    target_precompile_headers(${target} REUSE_FROM ${owner})
  endif()
endfunction()
shardstream_precompile(precompiled HEADERS ${SHARDSTREAM_PRECOMPILED} LINKS fmt::fmt)
shardstream_precompile(precompiled_cold HEADERS ${SHARDSTREAM_PRECOMPILED} LINKS fmt::fmt
  OPTIONS ${SHARDSTREAM_COLD_OPTIONS})

define_property(GLOBAL PROPERTY SHARDSTREAM_COMPONENTS BRIEF_DOCS "component:folder:used,used per entry")

# shardstream_component(NAME SOURCES file... [USES component...] [LINKS library...] [COLD] [ALONE])
# COLD: no code whose speed matters
# ALONE: each source is compiled alone, for its own compiler options or names
# Its folder is that of the calling CMakeLists.txt. The components that it uses come before it.
function(shardstream_component name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "ALONE;COLD" "" "SOURCES;USES;LINKS")
  add_library(shardstream_${name} STATIC ${arg_SOURCES})
  target_include_directories(shardstream_${name} PUBLIC
    ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/src)
  list(TRANSFORM arg_USES PREPEND shardstream_ OUTPUT_VARIABLE used)
  foreach(component ${used})
    if(NOT TARGET ${component})
      message(FATAL_ERROR "shardstream_${name} uses ${component}, which does not come before it")
    endif()
  endforeach()
  target_link_libraries(shardstream_${name} PUBLIC shardstream_flags ${used} ${arg_LINKS})
  if(arg_ALONE)
    set_target_properties(shardstream_${name} PROPERTIES UNITY_BUILD OFF)
  endif()
  if(arg_COLD)
    target_compile_options(shardstream_${name} PRIVATE ${SHARDSTREAM_COLD_OPTIONS})
    shardstream_reuse_precompiled(shardstream_${name} precompiled_cold)
  elseif(NOT name MATCHES "^(types|kernels)$")  # these do without {fmt}
    shardstream_reuse_precompiled(shardstream_${name} precompiled)
  endif()

  file(RELATIVE_PATH folder ${PROJECT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR})
  string(REPLACE ";" "," uses "${arg_USES}")
  set_property(GLOBAL APPEND PROPERTY SHARDSTREAM_COMPONENTS "${name}:${folder}:${uses}")
endfunction()
