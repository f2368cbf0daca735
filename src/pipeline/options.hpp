// The [pipeline] options and what they come to on this machine.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/options.hpp"
#include "core/shard.hpp"
#include "device/device.hpp"
#include "io/source/source.hpp"
#include "runtime/runtime.hpp"

namespace shardstream::pipeline {

/// The rows of [pipeline]: mode, batch, batches, slot, slots, readers, gpu-memory.
std::span<const OptionRow> pipeline_options();

/// Where the data is when the timed part begins.
enum class Mode {
  stream,          ///< at its source; readers bring it through the staging ring
  pageable,        ///< in ordinary host memory, read like a source
  pinned,          ///< in pinned host memory, uploaded from there without staging
  write_combined,  ///< like pinned, in memory that passes the host's caches by
  mapped,          ///< in pinned host memory that kernels read over the link, without uploads
  resident,        ///< on the device
};

/// pipeline.mode.
Mode mode(const Options& options);

/// The kind of host memory that holds the whole shard; none where it is elsewhere.
std::optional<device::Memory> host_memory(Mode mode);
/// Whether the data goes through slots.
bool is_staged(Mode mode);

/// Sizes of both rings, in elements; slots and batches are whole units.
struct Sizes {
  Mode mode = Mode::stream;
  std::uint64_t slot = 0, slots = 0;
  std::uint64_t batch = 0, batches = 0;  ///< in mode resident there is room for all batches
  unsigned readers = 1;
  std::uint64_t device_limit = 0;  ///< bytes of device memory that this rank may use

  /// Bytes of device memory and of host memory that a feed of these sizes takes.
  std::uint64_t device_bytes(std::uint64_t element) const;
  std::uint64_t host_bytes(std::uint64_t shard, std::uint64_t element) const;
};

/// The staging ring that the options ask for, whatever goes through it.
struct Ring {
  std::uint64_t slot_bytes, slots;
  unsigned readers;
  std::uint64_t drain_slot_bytes;  ///< of as many slots of a Drain
};
/// The work of readers on each piece, besides reading it.
enum class Reading {
  copying,
  decoding,   ///< compressed data
  computing,  ///< what a product rounds and sums
};
Ring staging_ring(const Options& options, const runtime::Resources& resources,
                  Reading reading = Reading::copying);

/// Bytes of device memory that this rank may use: pipeline.gpu-memory.
std::uint64_t device_limit(const Options& options, const runtime::Resources& resources);

/// What the options of [pipeline] came to, by key, for elements of `element` bytes: bytes, counts.
std::vector<std::pair<std::string, std::uint64_t>> resolved(const Sizes& sizes,
                                                            std::uint64_t element);

/// The options' sizes, with `auto` filled in, for a shard of `shard` elements of `element` bytes
/// cut into units of `unit` elements. `extra_per_unit` and `extra` are the bytes of device memory
/// that the caller needs for each unit of a batch, and in all. `decoding` is the source's. Throws
/// UsageError naming the size that would fit when memory does not suffice.
Sizes plan(const Options& options, const runtime::Resources& resources, std::uint64_t shard,
           std::uint64_t element, std::uint64_t unit, std::uint64_t extra_per_unit,
           std::uint64_t extra, const std::optional<io::Decoding>& decoding = {});

}  // namespace shardstream::pipeline
