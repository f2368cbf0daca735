// NVRTC, NVIDIA's compiler of CUDA C++ in a library. It needs no GPU. The first call loads it.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/error.hpp"

namespace shardstream::experiments::machine {

enum class Code {
  ptx,   ///< text for a virtual architecture, which a driver or a library compiles further
  cubin  ///< machine code for GPUs of one major compute capability
};

/// Whether NVRTC may use its own cache of compiled programs (version 12.9 or newer; the variables
/// CUDA_CACHE_* set it).
enum class OwnCache { allowed, off };

/// The source has errors.
class SourceError : public Error {
 public:
  explicit SourceError(std::string log)
      : Error("NVRTC has rejected a source"), log_(std::move(log)) {}
  const std::string& log() const { return log_; }

 private:
  std::string log_;
};

/// The compute capabilities for which NVRTC compiles, in ascending order; 90 for 9.0. Throws
/// NotAvailable if NVRTC cannot be loaded, or the program was built without it.
std::vector<int> capabilities_of_nvrtc();

/// Compiles CUDA C++ with the flags of this program's kernels (C++20, -fmad=false). It may include
/// the headers of the toolkit with which the program was built. `capability`
/// is one of capabilities_of_nvrtc(). Throws SourceError if the source has errors, NotAvailable if
/// NVRTC cannot be loaded, and Error if it fails.
std::string compile(const std::string& source, Code code, int capability, OwnCache cache);

/// The compute capabilities for which code is compiled that is to run on a GPU.
struct Targets {
  int ptx;
  std::optional<int> cubin;  ///< empty if NVRTC does not know the GPU's generation
};
/// The best ones for a GPU of `capability` among those in `known`, which are in ascending order.
/// Throws NotAvailable if all are newer than the GPU.
Targets targets_for(std::span<const int> known, int capability);

}  // namespace shardstream::experiments::machine
