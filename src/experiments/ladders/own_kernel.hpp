// A user's own kernel, which a ladder measures after its rungs: the file, the launch shape and the
// PTX. NVRTC compiles it; nothing here needs a GPU. own_rung.hpp launches it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "core/options.hpp"

namespace shardstream::experiments {
class Bench;
}

namespace shardstream::experiments::ladders {

/// A ladder that takes own kernels, and its requirements. A constant.
struct KernelRules {
  std::string_view experiment;
  std::string_view option;      ///< its value is FILE or FILE:FUNCTION
  std::string_view example;     ///< a source file (code.hpp)
  std::string_view parameters;  ///< the sentence for messages and help
  std::string_view constants;   ///< CUDA C++: the default of each constant of the launch
  std::string_view forms;       ///< CUDA C++: specialisations of form<F> for the accepted types
  std::string_view help;        ///< how the kernel is launched
};
/// Null if the experiment takes no own kernel.
const KernelRules* rules_of(std::string_view experiment);

/// A function with __global__ in a file.
struct OwnSource {
  std::string file;  ///< its name without folders
  std::string text;
  std::string function;
  int line = 0;  ///< of __global__

  /// "mine.cu:product", the name of the rung.
  std::string rung() const { return file + ':' + function; }
};
/// Reads the file of `option`, which is FILE or FILE:FUNCTION. Throws UsageError if the file cannot
/// be read, if it has no kernel of that name, or if it has several and none is named.
OwnSource read_own_kernel(const KernelRules& rules, const std::string& option);

/// A compiled kernel.
struct OwnKernel {
  OwnSource source;
  std::string code;    ///< the text that NVRTC compiles
  std::string ptx;     ///< for the capability of own_kernel()
  std::string symbol;  ///< the name of the kernel in its code
  /// The constants of the launch, and "form", which says how the kernel takes its arguments.
  std::map<std::string, std::uint32_t, std::less<>> constants;

  std::uint32_t operator[](std::string_view constant) const {
    return constants.find(constant)->second;
  }
};
/// Compiles the kernel for `capability`, 90 for 9.0, with the flags of this program's kernels.
/// Throws UsageError with NVRTC's log if it has errors, or if its parameters or its launch do not
/// fit, and NotAvailable without NVRTC.
OwnKernel own_kernel(const KernelRules& rules, const OwnSource& source, int capability);

/// The own kernel of an experiment for a GPU of `capability`; empty if none is given. If NVRTC is
/// not available, it is empty, and a note says so. Throws UsageError as own_kernel().
std::optional<OwnKernel> own_kernel_of(Bench& bench, std::string_view experiment, int capability);

/// Checks the own kernel of an experiment without a GPU. Returns a sentence on it; empty if none is
/// given. Throws UsageError as own_kernel().
std::string check_own_kernel(std::string_view experiment, const Options& options);

/// The text of `bench help` on own kernels, with a complete example; empty if the experiment takes
/// none.
std::string own_kernel_help(std::string_view experiment);

}  // namespace shardstream::experiments::ladders
