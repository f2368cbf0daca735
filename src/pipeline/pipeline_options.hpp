// The [pipeline] options, and the sizes that do not depend on the data.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "core/options.hpp"
#include "device/device.hpp"
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
/// The mode that pipeline.mode calls `name`, one of its choices.
Mode mode_named(std::string_view name);

/// The kind of host memory that holds the whole shard, if the mode has one.
std::optional<device::Memory> host_memory(Mode mode);
/// Whether the data goes through slots.
bool is_staged(Mode mode);
bool is_staged(const Options& options);  ///< in pipeline.mode

/// The values of [pipeline]. Nothing stands for auto; a size is in bytes.
struct RingOptions {
  RingOptions() = default;  ///< the defaults
  /// Implicit, since functions of this component take the options of a run.
  RingOptions(const Options& options);

  Mode mode = Mode::stream;
  std::optional<std::uint64_t> batch, slot, slots, readers, gpu_memory;
  std::uint64_t batches = 3;
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
StagingSizes staging_sizes(const RingOptions& options, const runtime::Resources& resources,
                           ReaderWork work = ReaderWork::copying);

/// The device memory in bytes that this rank may use: pipeline.gpu-memory. On the host backend,
/// auto leaves room for the process itself and for `host_bytes` bytes of other buffers.
std::uint64_t device_limit(const RingOptions& options, const runtime::Resources& resources,
                           std::uint64_t host_bytes = 0);

}  // namespace shardstream::pipeline
