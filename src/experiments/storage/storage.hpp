// The group "storage": the cost of reading files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "experiments/experiment.hpp"

namespace shardstream::experiments::storage {

/// The group's rows of the catalogue.
std::vector<Experiment> experiments();

/// A copy of the data that was read to another memory.
struct Copy {
  /// Copies at most plain_block bytes and returns when they have arrived.
  std::function<void(const std::byte* from, std::uint64_t bytes)> copy;
  /// Whether the last copy equals the data at `from`.
  std::function<bool(const std::byte* from, std::uint64_t bytes)> is_right;
};

/// Bytes of one H5Dread of plain code.
inline constexpr std::uint64_t plain_block = std::uint64_t{256} << 20;

/// `plain-reads` on the host. With `to_gpu`, it also measures H5Dread followed by that copy.
Table plain_reads_with(Bench& bench, const Copy* to_gpu);
Table plain_reads_on_host(Bench& bench);
/// Only in a build with CUDA.
Table plain_reads(Bench& bench);

}  // namespace shardstream::experiments::storage
