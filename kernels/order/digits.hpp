// Counts keys in equal steps of a few ranges, to find an order statistic of keys in device memory
// digit by digit. And the sample of the elements from which the first ranges are chosen.
#pragma once

#include <cstdint>

#include "kernels/data/generate.hpp"
#include "kernels/kernel.hpp"
#include "kernels/order/key.hpp"

namespace shardstream::order {

/// The keys from `first` to `last` in steps of 2^shift keys, which is a bin.
template <class K>
struct DigitRange {
  K first, last;
  unsigned shift;
};

inline constexpr unsigned max_digit_ranges = 1024, max_digit_bins = 32768;

/// Pointers are to device memory.
template <class K>
struct DigitArgs {
  const K* keys;
  std::uint64_t count;
  const DigitRange<K>* ranges;  ///< in order, without common keys
  unsigned number;              ///< of ranges; 1 to max_digit_ranges
  unsigned bits;                ///< a range has up to 2^bits bins; number << bits <= max_digit_bins
  /// Bin b of range r is counts[(r << bits) + b]; its number of keys is added to it. Keys in no
  /// range do not count.
  std::uint64_t* counts;
};

/// K is std::uint32_t or std::uint64_t.
template <class K>
Kernel<DigitArgs<K>> digit_kernel();

/// The place of the sampled element of stratum i, which are elements [i * 2^stride, (i+1) *
/// 2^stride). The places of a data set are the same on any ranks.
constexpr std::uint64_t sampled_place(std::uint64_t stratum, unsigned stride) {
  return (stratum << stride) + (mix(stratum + 1) & ((std::uint64_t{1} << stride) - 1));
}

/// Takes the sampled elements of a batch. Pointers are to device memory.
template <class T>
struct SampleArgs {
  const T* elements;
  std::uint64_t first, count;  ///< the global indices of the elements; count is at least 1
  unsigned stride;
  Missing<T> missing;      ///< elements that are not taken
  Key<T>* keys;            ///< out: in any order
  std::uint64_t capacity;  ///< of `keys`; further keys are only counted
  std::uint64_t* sampled;  ///< the number of taken keys is added to it
};

template <class T>
Kernel<SampleArgs<T>> sample_kernel();

/// The launchers. Each enqueues one kernel and does not wait.
namespace cuda {
template <class K>
void digits(const DigitArgs<K>& args, CudaStream stream);
template <class T>
void sample(const SampleArgs<T>& args, CudaStream stream);
}  // namespace cuda

}  // namespace shardstream::order
