// Code in the form of PTX or machine code, given to the driver at run time. Empty in a build
// without CUDA.
#pragma once

#if SHARDSTREAM_HAS_CUDA
#include <cudaTypedefs.h>

#include <string>

#include "experiments/driver_function.hpp"

namespace shardstream::experiments::machine {

/// PTX or a cubin in the current context, and its kernel. The destructor unloads it.
class LoadedImage {
 public:
  LoadedImage() = default;
  LoadedImage(const LoadedImage&) = delete;
  LoadedImage& operator=(const LoadedImage&) = delete;
  ~LoadedImage() {
    if (library_ != nullptr) unload_(library_);
  }

  /// Loads the kernel `name` of `image`. The driver compiles PTX. Call it once.
  CUresult load(const std::string& image, const char* name) {
    CUresult result = load_(&library_, image.c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0);
    CUkernel kernel = nullptr;
    if (result == CUDA_SUCCESS) result = find_(&kernel, library_, name);
    if (result == CUDA_SUCCESS) result = function_of_(&function_, kernel);
    return result;
  }
  /// Null before load() has succeeded.
  CUfunction function() const { return function_; }

 private:
  // found before the time of load() begins
  PFN_cuLibraryLoadData_v12000 load_ =
      driver_function<PFN_cuLibraryLoadData_v12000>("cuLibraryLoadData", 12000);
  PFN_cuLibraryGetKernel_v12000 find_ =
      driver_function<PFN_cuLibraryGetKernel_v12000>("cuLibraryGetKernel", 12000);
  PFN_cuKernelGetFunction_v12000 function_of_ =
      driver_function<PFN_cuKernelGetFunction_v12000>("cuKernelGetFunction", 12000);
  PFN_cuLibraryUnload_v12000 unload_ =
      driver_function<PFN_cuLibraryUnload_v12000>("cuLibraryUnload", 12000);
  CUlibrary library_ = nullptr;
  CUfunction function_ = nullptr;
};

}  // namespace shardstream::experiments::machine
#endif  // SHARDSTREAM_HAS_CUDA
