# Two functions that add tests. They handle ranks, labels, the GPU and skipping for all tests. Every
# ctest name begins with the name of the build folder: host.units, cuda.gpu_tests. A test that cannot
# run here prints "SKIP: why" and returns 77; ctest then lists it as skipped.

find_package(GTest)
if(NOT GTest_FOUND)
  message(FATAL_ERROR "The tests need GoogleTest: run jobs/install-dependencies --tests, or "
                      "configure with -DSHARDSTREAM_TESTS=OFF.")
endif()
find_package(Python3 REQUIRED COMPONENTS Interpreter)

# The first Python on PATH may not find the distribution's h5py.
set(SHARDSTREAM_PYTHON ${Python3_EXECUTABLE})
foreach(candidate ${Python3_EXECUTABLE} /usr/bin/python3)
  execute_process(COMMAND ${candidate} -c "import h5py"
    RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET)
  if(failed EQUAL 0)
    set(SHARDSTREAM_PYTHON ${candidate})
    break()
  endif()
endforeach()

# By default, Open MPI rejects root and more ranks than cores, and binds the ranks of tests that run
# in parallel to the same cores. Up to as many ranks as cores wait without yielding their core, which
# takes most of the time of tests that run in parallel.
set(launcher ${MPIEXEC_EXECUTABLE} ${MPIEXEC_PREFLAGS})
set(launcher_environment "")
execute_process(COMMAND ${MPIEXEC_EXECUTABLE} --version OUTPUT_VARIABLE version ERROR_QUIET)
if(version MATCHES "Open MPI|OpenRTE|PRRTE")
  list(APPEND launcher --oversubscribe --bind-to none)
  list(APPEND launcher_environment OMPI_MCA_mpi_yield_when_idle=1)
  execute_process(COMMAND id -u OUTPUT_VARIABLE user OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(user EQUAL 0)
    list(APPEND launcher_environment OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1)
  endif()
endif()
set(SHARDSTREAM_LAUNCHER ${launcher})
set(SHARDSTREAM_LAUNCHER_ENVIRONMENT ${launcher_environment})

get_filename_component(SHARDSTREAM_BUILD_NAME ${PROJECT_BINARY_DIR} NAME)
add_custom_target(shardstream_tests)  # all test programs of this build
shardstream_precompile(precompiled_tests HEADERS ${SHARDSTREAM_PRECOMPILED} <gtest/gtest.h>
  LINKS fmt::fmt GTest::gtest OPTIONS ${SHARDSTREAM_COLD_OPTIONS})

# Sets the properties of a test; used by both functions.
function(shardstream_register test)
  cmake_parse_arguments(PARSE_ARGV 1 arg "GPU" "PROCESSORS" "LABELS;ENVIRONMENT")
  foreach(label ${arg_LABELS})
    if(NOT label MATCHES "^(unit|contract|mpi|gpu|e2e|page|slurm|hosts|style)$")
      message(FATAL_ERROR "Test ${test}: unknown label ${label}.")
    endif()
  endforeach()
  if(NOT arg_LABELS)
    message(FATAL_ERROR "Test ${test} has no label.")
  endif()
  # The timeout is for tests that hang. Every test needs less than a quarter of it on two cores.
  set_tests_properties(${test} PROPERTIES
    LABELS "${arg_LABELS}" TIMEOUT 900 SKIP_RETURN_CODE 77
    ENVIRONMENT "${arg_ENVIRONMENT};${SHARDSTREAM_LAUNCHER_ENVIRONMENT}")
  if(arg_PROCESSORS)
    set_tests_properties(${test} PROPERTIES PROCESSORS ${arg_PROCESSORS})
  endif()
  if(arg_GPU)
    set_tests_properties(${test} PROPERTIES RESOURCE_LOCK gpu)
  endif()
endfunction()

# shardstream_test(NAME SOURCES file... LABELS unit|contract|mpi|gpu|e2e|slurm|hosts...
#                  [USES component...] [LINKS library...] [RANKS n...] [GPU] [OWN_MAIN]
#                  [SANITIZE thread|address|none...] [PROCESSORS n])
# A GoogleTest program, tests/NAME in the build folder.
#   RANKS     one ctest entry per count, NAME.npN, under the MPI launcher; tests/mpi/main.cpp
#             is its main. Sanitizer builds take the first and the last count
#   GPU       built only with CUDA, skipped without a visible GPU; tests/gpu/main.cpp is its main.
#             With RANKS: skipped with fewer GPUs than ranks
#   OWN_MAIN  a program without GoogleTest: it returns 0, 77 or a failure
#   SANITIZE  the sanitizer builds that it belongs to; by default address for unit, thread and
#             address for contract, none for all others
# PROCESSORS is the number of cores that a test with its own threads uses (default: its ranks).
function(shardstream_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg
    "GPU;OWN_MAIN" "PROCESSORS" "SOURCES;USES;LINKS;LABELS;RANKS;SANITIZE")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "shardstream_test(${name}): what is ${arg_UNPARSED_ARGUMENTS}?")
  endif()
  if(NOT arg_SANITIZE)
    set(arg_SANITIZE none)
    if("contract" IN_LIST arg_LABELS)
      set(arg_SANITIZE thread address)
    elseif("unit" IN_LIST arg_LABELS)
      set(arg_SANITIZE address)
    endif()
  endif()
  string(REPLACE "," ";" sanitizers "${SHARDSTREAM_SANITIZE}")
  if(sanitizers)
    list(GET sanitizers 0 sanitizer)
    if(NOT sanitizer IN_LIST arg_SANITIZE)
      return()
    endif()
    if(arg_RANKS)
      list(GET arg_RANKS 0 -1 arg_RANKS)
      list(REMOVE_DUPLICATES arg_RANKS)
    endif()
  endif()
  if(arg_GPU AND NOT SHARDSTREAM_HAS_CUDA OR SHARDSTREAM_TESTS STREQUAL GPU AND NOT arg_GPU)
    return()
  endif()

  set(main GTest::gtest_main)
  if(arg_OWN_MAIN)
    set(main "")
  elseif(arg_RANKS)
    set(main GTest::gtest MPI::MPI_C)
    list(APPEND arg_SOURCES ${PROJECT_SOURCE_DIR}/tests/mpi/main.cpp)
  elseif(arg_GPU)
    set(main GTest::gtest)
    list(APPEND arg_SOURCES ${PROJECT_SOURCE_DIR}/tests/gpu/main.cpp)
  endif()
  if(arg_GPU)
    list(APPEND main CUDA::cudart_static)
    list(APPEND arg_SOURCES ${PROJECT_SOURCE_DIR}/tests/gpu/need_gpus.cpp)
  endif()
  add_executable(${name} ${arg_SOURCES})
  list(TRANSFORM arg_USES PREPEND shardstream_)
  target_link_libraries(${name} PRIVATE shardstream_flags ${arg_USES} ${arg_LINKS} ${main})
  target_include_directories(${name} PRIVATE
    ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests)
  target_compile_options(${name} PRIVATE ${SHARDSTREAM_COLD_OPTIONS})
  if(arg_OWN_MAIN)
    shardstream_reuse_precompiled(${name} precompiled_cold)
  else()
    shardstream_reuse_precompiled(${name} precompiled_tests)
  endif()
  set_target_properties(${name} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  add_dependencies(shardstream_tests ${name})

  set(environment GTEST_COLOR=no  # mpirun looks like a terminal
    TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1 UBSAN_OPTIONS=print_stacktrace=1)
  set(test ${SHARDSTREAM_BUILD_NAME}.${name})
  set(gpu "")
  if(arg_GPU)
    set(gpu GPU)
  endif()
  if(NOT arg_RANKS)
    add_test(NAME ${test} COMMAND ${name})
    shardstream_register(${test} ${gpu} LABELS ${arg_LABELS} PROCESSORS ${arg_PROCESSORS}
      ENVIRONMENT ${environment})
  endif()
  foreach(ranks ${arg_RANKS})
    add_test(NAME ${test}.np${ranks} COMMAND
      ${SHARDSTREAM_LAUNCHER} ${MPIEXEC_NUMPROC_FLAG} ${ranks} $<TARGET_FILE:${name}>)
    set(processors ${ranks})
    if(arg_PROCESSORS)
      math(EXPR processors "${ranks} * ${arg_PROCESSORS}")
    endif()
    # MPI libraries keep memory until the end of the process, which is not a leak of this program.
    shardstream_register(${test}.np${ranks} ${gpu} LABELS ${arg_LABELS} PROCESSORS ${processors}
      ENVIRONMENT ${environment} ASAN_OPTIONS=detect_leaks=0)
  endforeach()
endfunction()

# shardstream_script_test(NAME COMMAND script argument... LABELS label...
#                         [GPU] [PROCESSORS n])
# A script in the folder of the calling CMakeLists.txt; a .py runs under the Python that has h5py.
# It starts in an empty folder of its own with these environment variables:
#   SHARDSTREAM_TEST_PROGRAM   the program
#   SHARDSTREAM_TEST_LAUNCHER  the MPI launcher with its flags; append "-n 2 PROGRAM"
#   SHARDSTREAM_TEST_CUDA      ON if the program contains the CUDA backend, else OFF
#   SHARDSTREAM_TEST_PYTHON    a Python that has h5py, if there is one
# Not part of sanitizer builds. GPU: only with CUDA.
function(shardstream_script_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "GPU" "PROCESSORS" "COMMAND;LABELS")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "shardstream_script_test(${name}): what is ${arg_UNPARSED_ARGUMENTS}?")
  endif()
  if(SHARDSTREAM_SANITIZE OR (arg_GPU AND NOT SHARDSTREAM_HAS_CUDA))
    return()
  endif()
  list(POP_FRONT arg_COMMAND script)
  get_filename_component(script ${script} ABSOLUTE)
  if(script MATCHES "\\.py$")
    list(PREPEND arg_COMMAND ${SHARDSTREAM_PYTHON} ${script})
  else()
    list(PREPEND arg_COMMAND ${script})
  endif()
  set(test ${SHARDSTREAM_BUILD_NAME}.${name})
  set(folder ${PROJECT_BINARY_DIR}/tests/${name}.folder)
  file(MAKE_DIRECTORY ${folder})
  add_test(NAME ${test} COMMAND sh -c "find . -mindepth 1 -delete && exec \"$@\"" ${name}
    ${arg_COMMAND})
  set_tests_properties(${test} PROPERTIES WORKING_DIRECTORY ${folder})
  set(gpu "")
  if(arg_GPU)
    set(gpu GPU)
  endif()
  string(JOIN " " launcher ${SHARDSTREAM_LAUNCHER})
  shardstream_register(${test} ${gpu} LABELS ${arg_LABELS} PROCESSORS ${arg_PROCESSORS}
    ENVIRONMENT SHARDSTREAM_TEST_PROGRAM=${PROJECT_BINARY_DIR}/shardstream
      "SHARDSTREAM_TEST_LAUNCHER=${launcher}" SHARDSTREAM_TEST_CUDA=${SHARDSTREAM_HAS_CUDA}
      SHARDSTREAM_TEST_PYTHON=${SHARDSTREAM_PYTHON})
endfunction()
