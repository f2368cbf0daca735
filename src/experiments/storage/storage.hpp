// The group "storage": what reading a file costs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "experiments/experiment.hpp"

namespace shardstream::experiments::storage {

/// The group's rows of the catalogue.
std::vector<Experiment> experiments();

/// A copy of what was read to another memory.
struct Copy {
  /// Returns when `bytes` bytes are there, at most plain_block.
  std::function<void(const std::byte* from, std::uint64_t bytes)> copy;
  /// Whether the last copy has arrived as it is at `from`.
  std::function<bool(const std::byte* from, std::uint64_t bytes)> is_right;
};

/// Bytes that plain code reads by one H5Dread.
inline constexpr std::uint64_t plain_block = std::uint64_t{256} << 20;

/// `plain-reads` on the host and, with `to_gpu`, also with a copy behind each H5Dread.
Table plain_reads_with(Bench& bench, const Copy* to_gpu);
Table plain_reads_on_host(Bench& bench);
/// Only in a build with CUDA.
Table plain_reads(Bench& bench);

}  // namespace shardstream::experiments::storage
