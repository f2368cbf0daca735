// The functions of the experiment `math` as compiled code, and the list of those that it compares.
#pragma once

#if SHARDSTREAM_HAS_CUDA
#include <cuda_runtime.h>

#include <cstdint>
#include <string>
#include <vector>

#include "experiments/instructions/math_reference.hpp"

namespace shardstream::experiments::instructions {

/// Kernels that compute one function with the flags of one source file.
struct Function {
  const char* name;  ///< the expression
  /// Stores the function of `count` arguments from `begin` on.
  void (*evaluate)(const Arguments& arguments, std::uint64_t begin, std::uint64_t count,
                   float* results, cudaStream_t stream);
  /// Computes the function of each argument 2 `rounds` times, by one thread for 4 arguments, and
  /// stores the arguments. Their number is a multiple of repeat_granule.
  void (*repeat)(const Arguments& arguments, unsigned rounds, float* results, cudaStream_t stream);
};

inline constexpr unsigned threads = 256, chains = 4, repeat_granule = threads * chains;

/// A function that a row of the table measures.
struct Case {
  std::string topic;
  Function function;
  Exact exact;
  float from, to;        ///< arguments
  bool is_base = false;  ///< whether the next functions can replace it
  double p = 0;          ///< the exponent of Exact::power; y is the same as a float
  Second second = Second::fixed;
};

/// The functions with their replacements, compiled with the flags of the program.
std::vector<Case> plain_cases();
/// The fractional exponents of the Best Practices Guide, with the same flags.
std::vector<Case> exponent_cases();
/// The functions that depend on flags, with each set of flags.
std::vector<Case> flagged_cases();

/// Sets of compiler flags: one each is added to the flags of the program.
enum class Flags : std::uint8_t { defaults, ftz, prec_div, prec_sqrt, fast_math };

/// A function that depends on flags.
enum class Flagged : std::uint8_t {
  quotient,
  reciprocal,
  root,
  reciprocal_root,
  sine,
  cosine,
  tangent,
  exponential,
  exponential_2,
  exponential_10,
  logarithm,
  logarithm_2,
  logarithm_10,
  power
};

/// The functions that a set changes; for `defaults`, all of them. math_flags.cu is compiled once
/// for each set and defines one of these.
struct FlaggedFunction {
  Flagged which;
  Function function;
};
template <Flags Set>
std::vector<FlaggedFunction> flagged_functions();
template <>
std::vector<FlaggedFunction> flagged_functions<Flags::defaults>();
template <>
std::vector<FlaggedFunction> flagged_functions<Flags::ftz>();
template <>
std::vector<FlaggedFunction> flagged_functions<Flags::prec_div>();
template <>
std::vector<FlaggedFunction> flagged_functions<Flags::prec_sqrt>();
template <>
std::vector<FlaggedFunction> flagged_functions<Flags::fast_math>();

}  // namespace shardstream::experiments::instructions
#endif  // SHARDSTREAM_HAS_CUDA
