// Conversion of stored elements to elements, on hosts and on devices. The bits are the same on
// every backend, except those of NaNs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "kernels/kernel.hpp"
#include "types/stored.hpp"

namespace shardstream {

/// Whether every stored value has an element. Values of f64 may be beyond the range of f32, and
/// only some numbers are integers of a given type.
bool always_fits(const Conversion& conversion);

/// The result of a conversion on a host.
struct Converted {
  std::uint64_t missing = 0;              ///< number of missing values
  std::optional<std::uint64_t> misfit{};  ///< the first element that does not fit its type
};

/// Converts `count` stored elements to `elements`, which must not overlap. Any alignment. Stops
/// soon after an element that does not fit. Finite numbers that f32 would make infinite do not fit,
/// nor do NaN and fractions as integers.
Converted convert(const Conversion& conversion, const std::byte* stored, std::uint64_t count,
                  std::byte* elements);

/// The same for elements that fit, by other code, element by element, to verify convert() and
/// convert_kernel().
void convert_simply(const Conversion& conversion, const std::byte* stored, std::uint64_t count,
                    std::byte* elements);

/// All pointers are to device memory, aligned to their elements.
struct ConvertArgs {
  Conversion conversion;  ///< one that always_fits()
  const std::byte* stored;
  std::byte* elements;     ///< out; does not overlap `stored`
  std::uint64_t count;     ///< at least 1
  std::uint64_t* missing;  ///< the number of missing values is added to it
};

Kernel<ConvertArgs> convert_kernel();

/// The launcher. It enqueues one kernel and does not wait.
namespace cuda {
void convert(const ConvertArgs& args, CudaStream stream);
}  // namespace cuda

}  // namespace shardstream
