#include "pipeline/pipeline_options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>

#include "core/shard.hpp"
#include "core/units.hpp"

namespace shardstream::pipeline {
namespace {

constexpr std::uint64_t MiB = std::uint64_t{1} << 20;

constexpr std::array rows = {
    OptionRow{
        "pipeline.mode", OptionKind::choice, "stream",
        "stream|pageable|pinned|write-combined|mapped|resident",
        "The place of the data when timing begins: its source (stream); ordinary (pageable), "
        "pinned or write-combined host memory; pinned memory that kernels read over the link "
        "(mapped); or device memory (resident). Matrix products do not take mapped and resident."},
    OptionRow{
        "pipeline.batch", OptionKind::size, "auto", "auto|1..",
        "Bytes that one kernel call processes, rounded up to whole units of the workload, such "
        "as the 65536 elements of reduce; auto is 64MiB, on the host backend 8MiB for each CPU of "
        "the rank, from 16 to 64MiB, or the whole shard in mode resident."},
    OptionRow{"pipeline.batches", OptionKind::count, "3", "1..64",
              "Number of batches in device memory: kernels work on one while the others fill."},
    OptionRow{
        "pipeline.slot", OptionKind::size, "auto", "auto|1..",
        "Bytes of one pinned staging slot, rounded up to whole units of the workload, or for a "
        "matrix product to some rows of a matrix; auto keeps the ring in the last-level cache: "
        "1 to 4MiB for uploads, up to 4MiB for downloads, 1MiB on the host backend."},
    OptionRow{"pipeline.slots", OptionKind::count, "auto", "auto|1..4096",
              "Number of staging slots of a rank; auto is two per reader."},
    OptionRow{"pipeline.readers", OptionKind::count, "auto", "auto|1..1024",
              "Number of threads of a rank that fill slots. auto is up to 8 of the rank's CPUs, or "
              "12 if several ranks share the host. For compressed data, which readers also decode, "
              "auto is all but an eighth of the CPUs. For matrix products, whose readers also "
              "round and add, it is the same, but at most 16."},
    OptionRow{
        "pipeline.gpu-memory", OptionKind::size, "auto", "auto|1..",
        "Device memory that a rank may use; auto is 90 % of the free memory. On CPUs, it is a "
        "part of the host's memory, and auto also leaves room for the program itself."},
};

/// The size of a slot for which the ring fits into one of `parts` parts of the last-level cache,
/// shared by the ranks of the host. Slots then go from reader to link, or from link to writer,
/// without reaching memory. The size is between `min_bytes`, below which the fixed cost of a slot
/// is too high, and 4 MiB (src/pipeline/MEASUREMENTS.md). On the
/// host backend a slot of 1 MiB stays in the cache of a core.
std::uint64_t cached_slot(const runtime::Resources& resources, std::uint64_t parts,
                          std::uint64_t slots, std::uint64_t min_bytes) {
  if (resources.backend == Backend::host) return MiB;
  const std::uint64_t cache = resources.cache > 0 ? resources.cache : 32 * MiB;
  const std::uint64_t ring = cache / parts / resources.ranks_on_host;
  return std::clamp(std::bit_floor(std::max<std::uint64_t>(1, ring / slots)), min_bytes, 4 * MiB);
}

/// The maximum number of readers. Eight readers that only copy saturate the link of a single rank;
/// with other ranks on the host, each read takes longer. Readers that decode or compute keep their
/// CPUs busy. If they had all CPUs, the thread that enqueues work on the GPU would be late.
unsigned max_readers(const runtime::Resources& resources, ReaderWork work) {
  const unsigned max_cpus = resources.threads - resources.threads / 8;
  if (work == ReaderWork::decoding) return max_cpus;
  if (work == ReaderWork::computing) return std::min(16U, max_cpus);
  return resources.ranks_on_host > 1 ? 12 : 8;
}

}  // namespace

std::span<const OptionRow> pipeline_options() {
  return rows;
}

Mode mode_named(std::string_view name) {
  constexpr std::array<std::string_view, 6> names = {"stream",         "pageable", "pinned",
                                                     "write-combined", "mapped",   "resident"};
  return static_cast<Mode>(std::ranges::find(names, name) - names.begin());  // in Mode's order
}

Mode mode(const Options& options) {
  return mode_named(options.text("pipeline.mode"));
}

RingOptions::RingOptions(const Options& options)
    : mode(mode_named(options.text("pipeline.mode"))), batches(options.count("pipeline.batches")) {
  const auto set = [&](std::string_view key, auto& value, auto read) {
    if (!options.is_auto(key)) value = (options.*read)(key);
  };
  set("pipeline.batch", batch, &Options::bytes);
  set("pipeline.slot", slot, &Options::bytes);
  set("pipeline.slots", slots, &Options::count);
  set("pipeline.readers", readers, &Options::count);
  set("pipeline.gpu-memory", gpu_memory, &Options::bytes);
}

std::optional<device::Memory> host_memory(Mode mode) {
  if (mode == Mode::stream || mode == Mode::resident) return std::nullopt;
  constexpr std::array memories = {device::Memory::pageable, device::Memory::pinned,
                                   device::Memory::write_combined, device::Memory::mapped};
  return memories.at(static_cast<std::size_t>(mode) - 1);  // in the order of Mode
}

bool is_staged(Mode mode) {
  return mode == Mode::stream || mode == Mode::pageable || mode == Mode::resident;
}

bool is_staged(const Options& options) {
  return is_staged(mode(options));
}

StagingSizes staging_sizes(const RingOptions& options, const runtime::Resources& resources,
                           ReaderWork work) {
  StagingSizes sizes{};
  const unsigned readers = std::max(1U, std::min(resources.threads, max_readers(resources, work)));
  sizes.readers = static_cast<unsigned>(options.readers.value_or(readers));
  sizes.slots = options.slots.value_or(2 * sizes.readers);
  sizes.readers = static_cast<unsigned>(std::min<std::uint64_t>(sizes.readers, sizes.slots));
  sizes.slot_bytes = options.slot.value_or(cached_slot(resources, 2, sizes.slots, MiB));
  sizes.drain_slot_bytes = options.slot.value_or(cached_slot(resources, 1, sizes.slots, 2 * MiB));
  return sizes;
}

std::uint64_t device_limit(const RingOptions& options, const runtime::Resources& resources,
                           std::uint64_t host_bytes) {
  std::uint64_t limit = resources.device_memory / 10 * 9;
  if (resources.backend == Backend::host) {
    const std::uint64_t other = saturating_sum({resources.process_memory, host_bytes});
    limit = std::min(limit, resources.device_memory - std::min(resources.device_memory, other));
  }
  return options.gpu_memory.value_or(limit);
}

}  // namespace shardstream::pipeline
