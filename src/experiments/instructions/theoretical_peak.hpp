// The theoretical peaks of the arithmetic units.
#pragma once

#include <array>
#include <limits>
#include <string_view>

namespace shardstream::experiments::instructions {

/// Multiply-adds of a multiprocessor in a clock, by the row of `roofline` (Work::arithmetic). 0:
/// the GPU has no such unit.
struct UnitsOfMultiprocessor {
  std::string_view roof;
  unsigned ampere, hopper;  ///< compute capability 8.0, 9.0
};

/// CUDA C++ Programming Guide, table Throughput of Native Arithmetic Instructions, and the tables
/// of the white papers "NVIDIA A100 Tensor Core GPU Architecture" and "NVIDIA H100 Tensor Core GPU
/// Architecture", without sparsity.
inline constexpr std::array units_of_multiprocessor = {
    UnitsOfMultiprocessor{"fp32", 64, 128},
    UnitsOfMultiprocessor{"fp64", 32, 64},
    UnitsOfMultiprocessor{"fp16 pairs", 256, 256},
    UnitsOfMultiprocessor{"bf16 pairs", 128, 256},
    UnitsOfMultiprocessor{"dp4a", 256, 256},
    UnitsOfMultiprocessor{"dp2a", 128, 128},
    UnitsOfMultiprocessor{"tensor fp64", 64, 128},
    UnitsOfMultiprocessor{"tensor tf32", 512, 1024},
    UnitsOfMultiprocessor{"tensor fp16", 1024, 2048},
    UnitsOfMultiprocessor{"tensor bf16", 1024, 2048},
    UnitsOfMultiprocessor{"tensor int8", 2048, 4096}};

/// The theoretical peak in Gop/s; a multiply-add is two operations. `capability` is 90 for 9.0, and
/// `clock` the highest one in kHz. NaN if it is not known for the GPU.
constexpr double theoretical_peak(std::string_view roof, int capability, int multiprocessors,
                                  int clock) {
  for (const UnitsOfMultiprocessor& each : units_of_multiprocessor) {
    if (each.roof != roof) continue;
    const unsigned units = capability == 80 ? each.ampere : capability == 90 ? each.hopper : 0;
    if (units > 0) return 2.0 * units * multiprocessors * clock / 1e6;
  }
  return std::numeric_limits<double>::quiet_NaN();
}

}  // namespace shardstream::experiments::instructions
