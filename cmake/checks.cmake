# Tests of the sources: components, headers, format, scripts. Include it after the tests.

get_property(components GLOBAL PROPERTY SHARDSTREAM_COMPONENTS)
list(JOIN components "\n" lines)
file(WRITE ${PROJECT_BINARY_DIR}/components.txt "${lines}\n")
if(SHARDSTREAM_SANITIZE)
  return()
endif()

set(unit ${PROJECT_SOURCE_DIR}/tests/unit)
shardstream_script_test(includes LABELS style COMMAND ${unit}/check_includes
  --source ${PROJECT_SOURCE_DIR} --components ${PROJECT_BINARY_DIR}/components.txt)
if(NOT SHARDSTREAM_HAS_CUDA)  # once is enough for what no build changes
  shardstream_script_test(includes_self_test LABELS style
    COMMAND ${unit}/check_includes --self-test)
  shardstream_script_test(names LABELS style
    COMMAND ${unit}/check_names --source ${PROJECT_SOURCE_DIR})
  shardstream_script_test(names_self_test LABELS style COMMAND ${unit}/check_names --self-test)
  shardstream_script_test(output_calls LABELS style
    COMMAND ${unit}/check_output_calls --source ${PROJECT_SOURCE_DIR})
  shardstream_script_test(output_calls_self_test LABELS style
    COMMAND ${unit}/check_output_calls --self-test)
  shardstream_script_test(limits LABELS style
    COMMAND ${unit}/check_limits --source ${PROJECT_SOURCE_DIR})
  shardstream_script_test(limits_self_test LABELS style COMMAND ${unit}/check_limits --self-test)
  shardstream_script_test(format LABELS style COMMAND ${unit}/check_format)
  shardstream_script_test(scripts LABELS style COMMAND ${unit}/check_scripts)
  shardstream_script_test(shown_commands LABELS style COMMAND ${unit}/check_shown_commands)
  shardstream_script_test(kernels_self_test LABELS style COMMAND ${unit}/check_kernels --self-test)
else()
  set(stories execution/divergence.cu execution/hiding.cu execution/occupancy.cu
              execution/unroll.cu execution/warp.cu instructions/integer.cu
              instructions/math_functions.cu instructions/precision.cu
              instructions/roofline.cu instructions/unit_rates.cu ladders/atomics.cu
              ladders/gram.cu ladders/matmul_cores.cu ladders/matmul_mma.cu ladders/matmul_wgmma.cu
              ladders/reduction.cu)
  list(TRANSFORM stories PREPEND ${PROJECT_SOURCE_DIR}/src/experiments/)
  shardstream_script_test(kernels LABELS style PROCESSORS 2
    COMMAND ${unit}/check_kernels --build ${PROJECT_BINARY_DIR} ${stories})
  shardstream_script_test(spills LABELS style COMMAND ${unit}/check_spills
    ${PROJECT_BINARY_DIR}/compile_commands.json)
endif()

# Checks that every header compiles alone. A header with a .cpp in this build does, since the .cpp
# includes it first (check_includes checks that). For every other header, the target check_headers,
# which the test `headers` builds, has a .cpp with only the libraries of its component.
add_custom_target(check_headers)
foreach(component ${components})
  string(REPLACE ":" ";" component "${component}")
  list(GET component 0 name)
  list(GET component 1 folder)
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}
    ${PROJECT_SOURCE_DIR}/${folder}/*.hpp)
  # A folder inside may be a separate component; headers for CUDA need CUDA.
  foreach(other ${components})
    string(REGEX REPLACE "^[^:]*:([^:]*):.*" "\\1" inner "${other}")
    if(inner MATCHES "^${folder}/")
      list(FILTER headers EXCLUDE REGEX "^${inner}/")
    endif()
  endforeach()
  if(NOT SHARDSTREAM_HAS_CUDA)
    list(FILTER headers EXCLUDE REGEX "/cuda/")
  endif()
  get_target_property(compiled shardstream_${name} SOURCES)
  get_target_property(base shardstream_${name} SOURCE_DIR)
  list(TRANSFORM compiled PREPEND ${base}/)
  set(sources "")
  foreach(header ${headers})
    string(REGEX REPLACE "hpp$" "cpp" own_source ${header})
    if(${PROJECT_SOURCE_DIR}/${own_source} IN_LIST compiled)
      continue()
    endif()
    set(source ${PROJECT_BINARY_DIR}/generated/headers/${header}.cpp)
    file(CONFIGURE OUTPUT ${source} CONTENT "#include \"${header}\"\n")
    list(APPEND sources ${source})
  endforeach()
  if(sources)
    add_library(check_headers_${name} OBJECT EXCLUDE_FROM_ALL ${sources})
    target_link_libraries(check_headers_${name} PRIVATE shardstream_${name})
    target_compile_options(check_headers_${name} PRIVATE -O0)
    set_target_properties(check_headers_${name} PROPERTIES UNITY_BUILD OFF)
    add_dependencies(check_headers check_headers_${name})
  endif()
endforeach()
add_test(NAME ${SHARDSTREAM_BUILD_NAME}.headers
  COMMAND ${CMAKE_COMMAND} --build ${PROJECT_BINARY_DIR} --target check_headers)
shardstream_register(${SHARDSTREAM_BUILD_NAME}.headers LABELS unit PROCESSORS 2)
