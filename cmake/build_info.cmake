# generated/build_info.hpp. Configuring fills in all but the commit; each build runs this file again
# as a script, which asks git and rewrites the header only if the commit changed, so that nothing
# is compiled again without need. Link shardstream_build_info where the header is included.

if(CMAKE_SCRIPT_MODE_FILE)
  set(git_commit unknown)
  if(EXISTS ${source}/.git)  # else git would answer for a repository around an unpacked archive
    execute_process(COMMAND git describe --always --dirty --abbrev=40 --exclude=*
      WORKING_DIRECTORY ${source} RESULT_VARIABLE failed OUTPUT_VARIABLE described
      OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    if(failed EQUAL 0)
      set(git_commit ${described})
    endif()
  endif()
  configure_file(${half_filled} ${header} @ONLY)
  return()
endif()

string(TOUPPER "${CMAKE_BUILD_TYPE}" configuration)
set(compiler "${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}")
string(JOIN " " flags ${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${configuration}}
  ${SHARDSTREAM_CXX_FLAGS} ${SHARDSTREAM_SANITIZE_FLAGS})
set(cuda_version none)
if(SHARDSTREAM_HAS_CUDA)
  set(cuda_version ${CMAKE_CUDA_COMPILER_VERSION})
  string(JOIN " " flags ${flags} "| nvcc" ${CMAKE_CUDA_FLAGS} ${CMAKE_CUDA_FLAGS_${configuration}}
    ${SHARDSTREAM_CUDA_FLAGS} sm ${CMAKE_CUDA_ARCHITECTURES})
endif()

set(header ${PROJECT_BINARY_DIR}/generated/build_info.hpp)
set(half_filled ${PROJECT_BINARY_DIR}/generated/build_info.hpp.in)
set(git_commit "@git_commit@")
configure_file(${PROJECT_SOURCE_DIR}/cmake/build_info.hpp.in ${half_filled} @ONLY)
add_custom_target(shardstream_git_commit
  COMMAND ${CMAKE_COMMAND} -Dsource=${PROJECT_SOURCE_DIR} -Dhalf_filled=${half_filled}
          -Dheader=${header} -P ${CMAKE_CURRENT_LIST_FILE}
  BYPRODUCTS ${header}
  COMMENT "Asking git for the commit" VERBATIM)
add_library(shardstream_build_info INTERFACE)
target_include_directories(shardstream_build_info INTERFACE ${PROJECT_BINARY_DIR}/generated)
add_dependencies(shardstream_build_info shardstream_git_commit)
