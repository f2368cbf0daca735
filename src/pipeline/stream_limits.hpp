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
#include "pipeline/pipeline_options.hpp"
#include "runtime/runtime.hpp"

namespace shardstream::pipeline {

/// The part of the pipeline that converts stored elements.
enum class Converter {
  none,     ///< elements are stored as they are
  readers,  ///< in the slot, before the upload
  device    ///< a kernel, before those of the workload
};

/// The bytes of an element on its way.
struct ElementSize {
  Converter converter = Converter::none;
  std::uint64_t stored = 1, element = 1;  ///< they are equal without a conversion

  /// In the rings.
  std::uint64_t moved() const { return converter == Converter::device ? stored : element; }
};
/// A device converts if the conversion cannot fail: the link then carries stored bytes.
ElementSize element_size(const io::Source& source, Backend backend);

/// The sizes of both rings.
struct Sizes {
  Mode mode = Mode::stream;
  ElementSize of = {};        ///< bytes
  std::uint64_t slot = 0;     ///< elements of a slot: a multiple of DeviceState::unit
  std::uint64_t slots = 0;    ///< number of slots
  std::uint64_t batch = 0;    ///< elements of a batch: a multiple of `unit`
  std::uint64_t batches = 0;  ///< number of batches in the ring in device memory
  /// Number of elements that a device converts and keeps: a batch, or the shard in mode resident.
  std::uint64_t converted = 0;
  unsigned readers = 1;
  std::uint64_t device_limit = 0;  ///< bytes of device memory that this rank may use

  /// The bytes of device memory that a Feed of these sizes needs.
  std::uint64_t device_bytes() const;
  /// The bytes of host memory that a Feed of a shard of `shard` elements needs.
  std::uint64_t host_bytes(std::uint64_t shard) const;
  /// The bytes of an element in the place of the data when timing begins: in the source for mode
  /// stream, in device memory for mode resident, else in host memory.
  std::uint64_t bytes_of_pass() const;
  /// The bytes for each element that a pass reads and writes in device memory, after the upload. A
  /// device that converts reads it as stored, writes it, and reads it again.
  std::uint64_t device_bytes_of_pass() const;
};

/// A rank's part of a source, as far as sizes depend on it.
struct ShardSize {
  std::uint64_t elements;
  ElementSize of;
  std::optional<io::Decoding> decoding;  ///< Source::decoding()
};
ShardSize size_of_shard(const io::Source& source, Range shard, Backend backend);

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

/// Device memory in bytes: what the batches of a shard take, and what they leave. 0 is left if they
/// take all of it.
struct BatchMemory {
  std::uint64_t taken, left;
  std::uint64_t batch;  ///< elements of one
  Backend backend;
};
BatchMemory batch_memory(const RingOptions& options, const runtime::Resources& resources,
                         const ShardSize& shard, const DeviceState& state);

/// The effective values of the [pipeline] options by key, in bytes or counts.
std::vector<std::pair<std::string, std::uint64_t>> resolved(const Sizes& sizes);

/// The readers of a Feed of these sizes.
measure::Readers readers_of(const Sizes& sizes);

/// Measures the limits of the data's way from host memory into the kernels, for a shard of
/// `shard` elements. Collective.
std::vector<measure::Ceiling> memory_ceilings(const runtime::Runtime& runtime, const Sizes& sizes,
                                              std::uint64_t shard);

}  // namespace shardstream::pipeline
