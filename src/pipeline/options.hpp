// The [pipeline] options, and the sizes of the rings that follow from them on this machine.
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

/// The rows of [pipeline].
std::span<const OptionRow> pipeline_options();

/// The place of the data when the timed part begins.
enum class Mode {
  stream,          ///< its source; readers bring it through the staging ring
  pageable,        ///< ordinary host memory, which is read like a source
  pinned,          ///< pinned host memory, uploaded without staging
  write_combined,  ///< like pinned, in memory that bypasses the host's caches
  mapped,          ///< pinned host memory that kernels read over the link, without uploads
  resident,        ///< device memory
};

/// pipeline.mode.
Mode mode(const Options& options);

/// The kind of host memory that holds the whole shard, if the mode has one.
std::optional<device::Memory> host_memory(Mode mode);
/// Whether the data goes through slots.
bool is_staged(Mode mode);

/// The sizes of both rings.
struct Sizes {
  Mode mode = Mode::stream;
  std::uint64_t slot = 0;     ///< elements of a slot: a multiple of choose_sizes()'s `unit`
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

/// The sizes of the slots, and the number of readers. They do not depend on the size of the data.
struct StagingSizes {
  std::uint64_t slot_bytes, slots;
  unsigned readers;
  std::uint64_t drain_slot_bytes;  ///< bytes of a slot of a Drain, which has `slots` slots too
};
/// The work of readers on each piece, in addition to reading it.
enum class ReaderWork {
  copying,
  decoding,   ///< decompression
  computing,  ///< rounding and checksums of a matrix product
};
/// The sizes from the options, with `auto` replaced.
StagingSizes staging_sizes(const Options& options, const runtime::Resources& resources,
                           ReaderWork work = ReaderWork::copying);

/// The device memory in bytes that this rank may use: pipeline.gpu-memory. On the host backend,
/// auto leaves room for the process itself and for `host_bytes` bytes of other buffers.
std::uint64_t device_limit(const Options& options, const runtime::Resources& resources,
                           std::uint64_t host_bytes = 0);

/// The effective values of the [pipeline] options by key, in bytes or counts, for elements of
/// `element` bytes.
std::vector<std::pair<std::string, std::uint64_t>> resolved(const Sizes& sizes,
                                                            std::uint64_t element);

/// The sizes from the options, with `auto` replaced. The shard has `shard` elements of `element`
/// bytes and is divided into units of `unit` elements. The caller needs `extra_per_unit` bytes of
/// device memory for each unit of a batch, and `extra` bytes in addition. `decoding` is
/// Source::decoding(). If there is not enough memory, throws UsageError with a size that fits.
Sizes choose_sizes(const Options& options, const runtime::Resources& resources, std::uint64_t shard,
                   std::uint64_t element, std::uint64_t unit, std::uint64_t extra_per_unit,
                   std::uint64_t extra, const std::optional<io::Decoding>& decoding = {});

}  // namespace shardstream::pipeline
