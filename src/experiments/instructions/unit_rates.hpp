// The rates at which multiprocessors multiply and add numbers of each type in registers, for
// `precision` and `roofline`. precision_units.cuh has the units and their instructions.
#pragma once

#if SHARDSTREAM_HAS_CUDA
#include <string>
#include <string_view>
#include <vector>

#include "experiments/gpu.hpp"
#include "experiments/instructions/real_elements.hpp"

namespace shardstream::experiments::instructions {

/// A unit of a multiprocessor: a row of the table of `precision`, and a roof of `roofline`.
struct Unit {
  const char *topic, *type;
  const char* roof;      ///< the name of its rate, as Work::arithmetic
  const char* operands;  ///< "two registers" if these are fewer than three, else ""
  int capability;        ///< 80 for compute capability 8.0
  unsigned group, depth;
  /// The largest relative rounding errors of an element and of an addition.
  double of_element, of_sum;
  RealElements elements;
  unsigned chains;  ///< independent sums of a group
  const void* kernel;
  void (*repeat)(unsigned blocks, unsigned rounds, float* results, cudaStream_t stream);
  /// Multiplies real elements with the inner dimension `inner`; 16 x 8 results, row-major.
  void (*multiply)(const RealElements& elements, double* c, cudaStream_t stream);
};
inline constexpr unsigned inner = 1024;

/// "bf16", or "fp32, two registers"
std::string type_of(const Unit& unit);
/// "CUDA cores, fp32, two registers"
std::string name_of(const Unit& unit);

/// All units, whatever the GPU has.
std::vector<Unit> all_units();
/// Whether the GPU has the unit.
bool has(const Gpu& gpu, const Unit& unit);
/// Whether mma.sync converts the elements to fp16 on the GPU, so that its rate is not that of fp8.
bool converts(const Gpu& gpu, const Unit& unit);

/// Number of blocks of `threads` threads that fill all multiprocessors.
unsigned resident_blocks(const Gpu& gpu, const void* kernel, unsigned threads);

struct UnitRate {
  Measured rate;  ///< Gop/s; a multiply-add is two operations
  Work work;      ///< of one call
  double seconds;
};
/// Measures a unit that the GPU has, after a check of its results.
UnitRate rate_of(Bench& bench, Gpu& gpu, const Unit& unit);

/// "0.97 of the theoretical peak of 66907 Gop/s at 1.98 GHz"; empty if the peak is not known.
/// `rate` in Gop/s, `roof` as Work::arithmetic.
std::string share_of_theoretical_peak(const Gpu& gpu, std::string_view roof, double rate);

}  // namespace shardstream::experiments::instructions
#endif  // SHARDSTREAM_HAS_CUDA
