// A user's own kernel on a GPU, as a rung of a ladder. Empty in a build without CUDA.
#pragma once

#if SHARDSTREAM_HAS_CUDA
#include <cudaTypedefs.h>

#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "experiments/context.hpp"
#include "experiments/driver_function.hpp"
#include "experiments/formatted.hpp"
#include "experiments/gpu.hpp"
#include "experiments/incomplete.hpp"
#include "experiments/ladders/ladder.hpp"
#include "experiments/ladders/own_kernel.hpp"
#include "experiments/machine/loaded_image.hpp"
#include "experiments/machine/nvrtc.hpp"

namespace shardstream::experiments::ladders {

/// An own kernel that is loaded on the current GPU. Its destructor unloads it.
class OwnRung {
 public:
  /// `kernel` must outlive the object. Throws Error if the driver cannot load it.
  OwnRung(const OwnKernel& kernel, int capability) : kernel_(kernel) {
    const machine::Targets targets =
        machine::targets_for(machine::capabilities_of_nvrtc(), capability);
    const std::string code = targets.cubin
                                 ? machine::compile(kernel.code, machine::Code::cubin,
                                                    *targets.cubin, machine::OwnCache::allowed)
                                 : kernel.ptx;
    check_result(image_.load(code, kernel.symbol.c_str()), "cannot be loaded");
    const auto set = driver_function<PFN_cuFuncSetAttribute_v9000>("cuFuncSetAttribute", 9000);
    if (kernel["shared_bytes"] > 0) {
      check_result(set(image_.function(), CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                       static_cast<int>(kernel["shared_bytes"])),
                   "cannot have its shared_bytes");
    }
  }

  /// The number of a constant of the launch, or `form`.
  unsigned operator[](std::string_view constant) const { return kernel_[constant]; }
  std::string name() const { return kernel_.source.rung(); }

  /// Its rung. The bytes of `work` are those of the data, since its loads are not known.
  Rung rung(const std::string& launch, const Work& work) const {
    return {
        name(), {kernel_.source.file.c_str(), kernel_.source.line}, "own kernel; " + launch, work};
  }

  /// Enqueues the kernel. `arguments` point to its arguments, which are copied. Throws Error if the
  /// launch is rejected.
  void launch(dim3 grid, dim3 block, std::span<void*> arguments, cudaStream_t stream) const {
    check_result(launch_(image_.function(), grid.x, grid.y, grid.z, block.x, block.y, block.z,
                         kernel_["shared_bytes"], stream, arguments.data(), nullptr),
                 "cannot be launched");
  }

 private:
  /// The driver's results have the numbers of the runtime's.
  void check_result(CUresult result, const char* problem) const {
    check(static_cast<cudaError_t>(result),
          formatted("{} {}", name(), std::string(problem)).c_str());
  }

  const OwnKernel& kernel_;
  machine::LoadedImage image_;
  PFN_cuLaunchKernel_v4000 launch_ =
      driver_function<PFN_cuLaunchKernel_v4000>("cuLaunchKernel", 4000);
};

/// Calls `climb`, which measures the own kernel as the last rung. Throws Incomplete with the rows
/// of the others if that fails.
inline void climb_own_kernel(Ladder& ladder, const OwnKernel& kernel,
                             const std::function<void()>& climb) {
  const auto sentence = [&](const Error& error) {
    const std::string name = kernel.source.rung();
    if (!context_is_lost()) return formatted("Own kernel {}: {}.", name, std::string(error.what()));
    return formatted(
        "Own kernel {} has destroyed the CUDA context ({}), as an access outside its arrays does: "
        "no later experiment can run. compute-sanitizer names the line.",
        name, std::string(cudaGetErrorString(cudaDeviceSynchronize())));  // the same error again
  };
  try {
    climb();
  } catch (const Unverified& error) {
    throw Incomplete(Unverified(sentence(error)), std::move(ladder).table());
  } catch (const Error& error) {
    throw Incomplete(Error(sentence(error)), std::move(ladder).table());
  }
}

}  // namespace shardstream::experiments::ladders
#endif  // SHARDSTREAM_HAS_CUDA
