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

add_library(shardstream_flags INTERFACE)
target_compile_features(shardstream_flags INTERFACE cxx_std_20)
set(warnings -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Wpedantic)
target_compile_options(shardstream_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:${warnings};${SHARDSTREAM_CXX_FLAGS}>
  $<$<COMPILE_LANGUAGE:CUDA>:${SHARDSTREAM_CUDA_FLAGS};-Xcompiler=-Wall,-Wextra,-Wshadow>)
if(SHARDSTREAM_WERROR)
  target_compile_options(shardstream_flags INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-Werror> $<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings>)
endif()
if(SHARDSTREAM_SANITIZE)
  target_compile_options(shardstream_flags INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:${SHARDSTREAM_SANITIZE_FLAGS};-fno-omit-frame-pointer;-g1>)
  target_link_options(shardstream_flags INTERFACE ${SHARDSTREAM_SANITIZE_FLAGS})
endif()

define_property(GLOBAL PROPERTY SHARDSTREAM_COMPONENTS BRIEF_DOCS "component:folder:used,used per entry")

# shardstream_component(NAME SOURCES file... [USES component...] [LINKS library...])
# The folder is NAME, or for device_cuda device/cuda, or else the one of the calling CMakeLists.txt.
function(shardstream_component name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;USES;LINKS")
  add_library(shardstream_${name} STATIC ${arg_SOURCES})
  target_include_directories(shardstream_${name} PUBLIC
    ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/src)
  list(TRANSFORM arg_USES PREPEND shardstream_ OUTPUT_VARIABLE used)
  target_link_libraries(shardstream_${name} PUBLIC shardstream_flags ${used} ${arg_LINKS})

  set(folder ${CMAKE_CURRENT_SOURCE_DIR})
  string(REPLACE "_" "/" nested ${name})
  foreach(candidate ${nested} ${name})
    if(IS_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}/${candidate})
      set(folder ${CMAKE_CURRENT_SOURCE_DIR}/${candidate})
    endif()
  endforeach()
  file(RELATIVE_PATH folder ${PROJECT_SOURCE_DIR} ${folder})
  string(REPLACE ";" "," uses "${arg_USES}")
  set_property(GLOBAL APPEND PROPERTY SHARDSTREAM_COMPONENTS "${name}:${folder}:${uses}")
endfunction()
