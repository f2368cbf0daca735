// The sums of the variables of a tile on C's diagonal, on their way to the host.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <vector>

#include "pipeline/drain.hpp"
#include "workloads/product/engine/normalization/variable_statistics.hpp"

namespace shardstream::workloads::product {

/// The device addresses of the sum of each variable's values, and of the sum of their squares.
struct DeviceSums {
  const double *sums = nullptr, *squares = nullptr;
  const double* counts = nullptr;  ///< numbers of values; null if all are the same

  /// The number of doubles for `variables` variables.
  std::uint64_t doubles(std::uint64_t variables) const {
    return (counts != nullptr ? 3 : 2) * variables;
  }
};

/// The sums of some variables on the host. At most one push() after each begin().
class TileSums {
 public:
  /// Forgets the sums of the last run.
  void begin();

  /// Adds the word checksums of the sums of `variables` variables to `*words` on the device.
  /// Enqueued.
  static void add_checksums(device::Stream& stream, const DeviceSums& from, std::uint64_t variables,
                            std::uint64_t* words);
  /// Sends the sums to the host after the event `after`. Writers of the drain call `arrived` with
  /// numbers of doubles, from.doubles(variables) in all. Returns the number of the last push.
  /// Objects must live as long as Drain::push() requires.
  std::uint64_t push(pipeline::Drain& drain, const device::Event& after, const DeviceSums& from,
                     std::uint64_t variables, const std::function<void(std::uint64_t)>& arrived);

  // The rest is for the time after all of them have arrived.

  /// The word checksums of the sums as they have arrived, for comparison with add_checksums().
  std::uint64_t words() const { return words_; }
  /// The sums of the variables from `first` on; empty if there was no push().
  VariableSumsOf of(std::uint64_t first) const { return {first, of_[0], of_[1], of_[2]}; }

 private:
  std::array<std::vector<double>, 3> of_;  ///< sums, squares, counts
  std::atomic<std::uint64_t> words_ = 0;
};

}  // namespace shardstream::workloads::product
