// The parts of NCCL that newer versions have, and the versions that they need.
#pragma once

#include <dlfcn.h>

#include <array>
#include <string>

namespace shardstream::experiments::machine {

enum class NcclFeature {
  registration,  ///< memory that is registered with a communicator (ncclCommRegister)
  windows,       ///< symmetric windows (ncclCommWindowRegister)
  device_code    ///< kernels that read the windows of other GPUs (nccl_device.h)
};

/// The function `name` of the loaded library, with the type of its declaration in nccl.h. Null if
/// the library does not have it: the program also runs with libraries older than its header.
template <class Function>
Function* find(Function*, const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

/// "2.28.9" for 22809, as ncclGetVersion returns versions since 2.9.
inline std::string nccl_version_text(int version) {
  return std::to_string(version / 10000) + '.' + std::to_string(version / 100 % 100) + '.' +
         std::to_string(version % 100);
}

/// Why a program that was built with the header of one version and runs with the library of another
/// one does not have `feature`; empty if it has. Both versions are numbers as of ncclGetVersion.
/// Device code needs the same version of both, since its structures change between versions.
inline std::string why_without(NcclFeature feature, int header, int library) {
  const int needed = std::array{21900, 22700, 22800}[static_cast<std::size_t>(feature)];
  const std::string needs = "it needs NCCL " + nccl_version_text(needed);
  if (header < needed) {
    return needs + ", and this program was built with " + nccl_version_text(header);
  }
  if (library < needed) return needs + ", and the library is " + nccl_version_text(library);
  if (feature == NcclFeature::device_code && header != library) {
    return "it needs the library with which this program was built, NCCL " +
           nccl_version_text(header) + ", and the library is " + nccl_version_text(library);
  }
  return "";
}

}  // namespace shardstream::experiments::machine
