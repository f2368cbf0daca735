# All libraries that the program uses. Nothing is downloaded.

find_package(Threads REQUIRED)
find_package(MPI REQUIRED COMPONENTS C)
# Without these definitions, mpi.h includes the removed C++ bindings, which need another library.
target_compile_definitions(MPI::MPI_C INTERFACE OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX)
set(HDF5_PREFER_PARALLEL ON)
find_package(HDF5 1.10 REQUIRED COMPONENTS C)
find_package(Boost 1.74 REQUIRED COMPONENTS program_options)
find_package(fmt REQUIRED)
find_package(nlohmann_json 3.10 REQUIRED)
find_package(libdeflate 1.8 REQUIRED)

add_library(shardstream_hdf5 INTERFACE)
target_include_directories(shardstream_hdf5 SYSTEM INTERFACE ${HDF5_C_INCLUDE_DIRS})
target_link_libraries(shardstream_hdf5 INTERFACE ${HDF5_C_LIBRARIES})
if(HDF5_IS_PARALLEL)
  target_link_libraries(shardstream_hdf5 INTERFACE MPI::MPI_C)  # hdf5.h includes mpi.h
endif()

# CPU affinity: the cores near each GPU.
find_package(hwloc 2.1)
set(SHARDSTREAM_HAS_HWLOC ${hwloc_FOUND})
if(NOT SHARDSTREAM_HAS_HWLOC)
  message(WARNING "hwloc was not found: building WITHOUT it; ranks keep the launcher's CPUs and "
                  "are not placed near GPUs. Install libhwloc-dev, or give -Dhwloc_ROOT=/path.")
endif()

# Matrix products on CPUs.
find_package(OpenBLAS 0.3)
set(SHARDSTREAM_HAS_CBLAS ${OpenBLAS_FOUND})
if(NOT SHARDSTREAM_HAS_CBLAS)
  message(WARNING "OpenBLAS was not found: building WITHOUT it; CPUs cannot run gemm and gram. "
                  "Install libopenblas-dev, or give -DOpenBLAS_ROOT=/path.")
endif()

set(SHARDSTREAM_HAS_CUDA OFF)
if(NOT SHARDSTREAM_CUDA STREQUAL OFF)
  if(NOT CMAKE_CUDA_COMPILER)
    unset(CMAKE_CUDA_COMPILER CACHE)  # an earlier search that failed is not the last word
  endif()
  include(CheckLanguage)
  check_language(CUDA)
  set(problem "No working CUDA compiler was found")
  set(remedy "put nvcc on PATH, or set CUDACXX=/path/to/nvcc")
  if(CMAKE_CUDA_COMPILER)
    execute_process(COMMAND ${CMAKE_CUDA_COMPILER} --version OUTPUT_VARIABLE output)
    string(REGEX MATCH "release ([0-9.]+)" unused "${output}")
    set(toolkit ${CMAKE_MATCH_1})
    if(NOT toolkit OR toolkit VERSION_GREATER_EQUAL 12.4)
      set(SHARDSTREAM_HAS_CUDA ON)
    else()
      set(problem "CUDA ${toolkit} (${CMAKE_CUDA_COMPILER}) is older than 12.4")
      set(remedy "set CUDACXX to the nvcc of a newer toolkit")
    endif()
  endif()
  if(SHARDSTREAM_HAS_CUDA)
    if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
      include(cuda_architectures)
    endif()
    enable_language(CUDA)
    find_package(CUDAToolkit 12.4 REQUIRED)
    message(STATUS "CUDA ${CUDAToolkit_VERSION}: built for ${CMAKE_CUDA_ARCHITECTURES}")
    if(NOT TARGET CUDA::cublasLt)
      message(FATAL_ERROR "cuBLASLt is not beside this CUDA Toolkit: install its libcublas-dev, or "
                          "configure with -DSHARDSTREAM_CUDA=OFF.")
    endif()
  elseif(SHARDSTREAM_CUDA STREQUAL ON)
    message(FATAL_ERROR "${problem}, and SHARDSTREAM_CUDA=ON: ${remedy}, "
                        "or configure with -DSHARDSTREAM_CUDA=OFF.")
  else()
    message(WARNING "${problem}: building WITHOUT the CUDA backend; the program will compute on "
                    "CPUs only. To change that, ${remedy}.")
  endif()
endif()

# Collectives between GPUs. Version 2.18 introduced splitting a communicator.
set(SHARDSTREAM_HAS_NCCL OFF)
if(SHARDSTREAM_HAS_CUDA)
  find_package(NCCL 2.18)
  set(SHARDSTREAM_HAS_NCCL ${NCCL_FOUND})
  if(NOT SHARDSTREAM_HAS_NCCL)
    message(WARNING "NCCL was not found: building WITHOUT it; ranks combine over MPI, through host "
                    "memory. Install libnccl-dev, or give -DNCCL_ROOT=/path.")
  endif()
endif()

# Compilation at run time, which an experiment measures.
set(SHARDSTREAM_HAS_NVRTC OFF)
set(SHARDSTREAM_HAS_PTX_COMPILER OFF)
if(SHARDSTREAM_HAS_CUDA)
  find_path(NVRTC_INCLUDE_DIR nvrtc.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
  if(TARGET CUDA::nvrtc AND NVRTC_INCLUDE_DIR)
    set(SHARDSTREAM_HAS_NVRTC ON)
  else()
    message(WARNING "NVRTC is not beside this CUDA Toolkit: building WITHOUT it; bench "
                    "runtime-compile is not available. Install its cuda-nvrtc-dev.")
  endif()
  if(SHARDSTREAM_PTX_COMPILER)
    find_path(PTX_COMPILER_INCLUDE_DIR nvPTXCompiler.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
    if(NOT (SHARDSTREAM_HAS_NVRTC AND TARGET CUDA::nvptxcompiler_static AND PTX_COMPILER_INCLUDE_DIR))
      message(FATAL_ERROR "SHARDSTREAM_PTX_COMPILER=ON needs NVRTC and libnvptxcompiler_static.a "
                          "of the CUDA Toolkit: install its cuda-nvrtc-dev and libnvptxcompiler, "
                          "or leave the option off")
    endif()
    set(SHARDSTREAM_HAS_PTX_COMPILER ON)
  endif()
  mark_as_advanced(NVRTC_INCLUDE_DIR PTX_COMPILER_INCLUDE_DIR)
endif()
