// The sizes of the rings for one streamed source on this machine, and the machine's limits for
// its data.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/shard.hpp"
#include "io/source/source.hpp"
#include "measure/ceilings.hpp"
#include "measure/source_ceilings.hpp"
#include "pipeline/options.hpp"
#include "runtime/runtime.hpp"

namespace shardstream::pipeline {

/// The sizes of both rings.
struct Sizes {
  Mode mode = Mode::stream;
  std::uint64_t slot = 0;     ///< elements of a slot: a multiple of DeviceState::unit
  std::uint64_t slots = 0;    ///< number of slots
  std::uint64_t batch = 0;    ///< elements of a batch: a multiple of `unit`
  std::uint64_t batches = 0;  ///< number of batches in device memory; all of them in mode resident
  unsigned readers = 1;
  std::uint64_t device_limit = 0;  ///< bytes of device memory that this rank may use

  /// The bytes of device memory, and of host memory, that a Feed of these sizes needs. An element
  /// has `element` bytes.
  std::uint64_t device_bytes(std::uint64_t element) const;
  std::uint64_t host_bytes(std::uint64_t shard, std::uint64_t element) const;
};

/// A rank's part of a source, as far as sizes depend on it.
struct ShardSize {
  std::uint64_t elements;
  std::uint64_t element;                 ///< bytes of one
  std::optional<io::Decoding> decoding;  ///< Source::decoding()
};
ShardSize size_of_shard(const io::Source& source, Range shard);

/// The device memory of a computation besides the rings, and its unit.
struct DeviceState {
  std::uint64_t unit = 1;      ///< elements that are never divided, by ranks, batches or slots
  std::uint64_t per_unit = 0;  ///< bytes of device memory for each unit of a batch
  std::uint64_t fixed = 0;     ///< bytes of device memory in addition
};

/// The sizes from the options, with `auto` replaced. If there is not enough memory, throws
/// UsageError with a size that fits.
Sizes choose_sizes(const RingOptions& options, const runtime::Resources& resources,
                   const ShardSize& shard, const DeviceState& state = {});

/// The effective values of the [pipeline] options by key, in bytes or counts, for elements of
/// `element` bytes.
std::vector<std::pair<std::string, std::uint64_t>> resolved(const Sizes& sizes,
                                                            std::uint64_t element);

/// The readers of a Feed of these sizes.
measure::Readers readers_of(const Sizes& sizes);

/// Measures the limits of the data's way from host memory into the kernels. `element` bytes each.
/// Collective.
std::vector<measure::Ceiling> memory_ceilings(const runtime::Runtime& runtime, const Sizes& sizes,
                                              std::uint64_t element, std::uint64_t shard_bytes);

}  // namespace shardstream::pipeline
