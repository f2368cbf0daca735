#include "pipeline/options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>

#include "core/error.hpp"
#include "core/units.hpp"

namespace shardstream::pipeline {
namespace {

constexpr std::uint64_t MiB = std::uint64_t{1} << 20;

constexpr std::array rows = {
    OptionRow{"pipeline.mode", OptionKind::choice, "stream",
              "stream|pageable|pinned|write-combined|mapped|resident",
              "Where the data is when timing begins: at its source (stream), loaded beforehand "
              "into ordinary (pageable), pinned or write-combined host memory, in pinned memory "
              "that kernels read over the link (mapped), or on the device (resident). Matrix "
              "products take stream and pageable."},
    OptionRow{"pipeline.batch", OptionKind::size, "auto", "auto|1..",
              "Bytes that one kernel call gets, rounded up to whole leaves; auto is 64MiB, or the "
              "whole shard when it is resident."},
    OptionRow{"pipeline.batches", OptionKind::count, "3", "1..64",
              "Batches in device memory: one computes while the others fill."},
    OptionRow{"pipeline.slot", OptionKind::size, "auto", "auto|1..",
              "Bytes of one pinned staging slot, rounded up to whole leaves, or to some rows of a "
              "matrix;  auto keeps the ring in the last-level cache: 1 to 4MiB for readers, 2 to "
              "4MiB for what comes back, 1MiB on the host backend."},
    OptionRow{"pipeline.slots", OptionKind::count, "auto", "auto|1..4096",
              "Staging slots of a rank; auto is two a reader."},
    OptionRow{"pipeline.readers", OptionKind::count, "auto", "auto|1..1024",
              "Threads of a rank that fill slots; auto is up to 8 of the CPUs granted to it, or 12 "
              "where several ranks share the host. Readers of compressed data also decode: auto is "
              "then all but an eighth of the CPUs. Readers of matrices that are multiplied round "
              "and sum: likewise, but up to 16."},
    OptionRow{"pipeline.gpu-memory", OptionKind::size, "auto", "auto|1..",
              "Device memory that a rank may use; auto is 90 % of what is free."},
};

/// Elements as whole units, at least one.
std::uint64_t whole_units(std::uint64_t elements, std::uint64_t unit) {
  return std::max<std::uint64_t>(1, ceil_div(elements, unit)) * unit;
}

std::uint64_t count_or(const Options& options, std::string_view key, std::uint64_t chosen) {
  return options.is_auto(key) ? chosen : options.count(key);
}
std::uint64_t size_or(const Options& options, std::string_view key, std::uint64_t chosen) {
  return options.is_auto(key) ? chosen : options.bytes(key);
}

/// One of `parts` of the last-level cache, shared by the host's ranks, holds the ring: slots then
/// go from reader to link, or from link to writer, without touching memory. From `least`, below
/// which each slot's own cost is too high, to 4 MiB a slot (src/pipeline/README.md). On a host a
/// slot of 1 MiB stays in the cache of a core and costs no call of a driver.
std::uint64_t cached_slot(const runtime::Resources& resources, std::uint64_t parts,
                          std::uint64_t slots, std::uint64_t least) {
  if (resources.device_is_host) return MiB;
  const std::uint64_t cache = resources.cache > 0 ? resources.cache : 32 * MiB;
  const std::uint64_t ring = cache / parts / resources.ranks_on_host;
  return std::clamp(std::bit_floor(std::max<std::uint64_t>(1, ring / slots)), least, 4 * MiB);
}

/// Eight that only copy keep a link busy that is alone; beside other ranks each read takes longer.
/// Readers that decode or compute keep their CPUs busy. If they had all CPUs, the thread that
/// launches work on the GPU would be late.
unsigned most_readers(const runtime::Resources& resources, Reading reading) {
  const unsigned most_cpus = resources.threads - resources.threads / 8;
  if (reading == Reading::decoding) return most_cpus;
  if (reading == Reading::computing) return std::min(16U, most_cpus);
  return resources.ranks_on_host > 1 ? 12 : 8;
}

void check_device_memory(const Sizes& sizes, const runtime::Resources& resources,
                         std::uint64_t wanted_batches, std::uint64_t shard, std::uint64_t element,
                         std::uint64_t unit, std::uint64_t extra_per_unit, std::uint64_t extra) {
  const std::uint64_t partials = ceil_div(sizes.batch, unit) * extra_per_unit + extra;
  const std::uint64_t need = sizes.device_bytes(element) + partials;
  if (need <= sizes.device_limit) return;
  if (sizes.mode == Mode::resident) {
    throw UsageError(
        fmt::format("the rank's shard of {} does not fit into {} of device memory ({} free): use "
                    "--pipeline.mode stream, or more ranks",
                    format_size(shard * element), format_size(sizes.device_limit),
                    format_size(resources.device_memory)));
  }
  // Smaller batches are as many as were asked for, with their units' extra beside them.
  const std::uint64_t per_unit = wanted_batches * unit * element + extra_per_unit;
  const std::uint64_t units =
      sizes.device_limit > extra ? (sizes.device_limit - extra) / per_unit : 0;
  const std::string remedy =
      units > 0 ? fmt::format("use --pipeline.batch {}B or less", units * unit * element)
                : fmt::format("allow --pipeline.gpu-memory {}B or more", need);
  throw UsageError(fmt::format(
      "pipeline.batch: {} batches of {} need {} of device memory, of which {} may be used ({} "
      "free): {}",
      sizes.batches, format_size(sizes.batch * element), format_size(need),
      format_size(sizes.device_limit), format_size(resources.device_memory), remedy));
}

void check_host_memory(const Sizes& sizes, const runtime::Resources& resources, std::uint64_t shard,
                       std::uint64_t element, std::uint64_t decoding) {
  const std::uint64_t need = sizes.host_bytes(shard, element) + decoding +
                             (resources.device_is_host ? sizes.device_bytes(element) : 0);
  const std::uint64_t have = resources.host_memory / resources.ranks_on_host;
  if (need <= have) return;
  throw UsageError(fmt::format(
      "a rank needs {} of host memory and has {}: {}", format_size(need), format_size(have),
      sizes.mode == Mode::stream
          ? "use smaller --pipeline.batch, --pipeline.slot or --pipeline.slots"
          : "use --pipeline.mode stream, or more hosts"));
}

}  // namespace

std::span<const OptionRow> pipeline_options() {
  return rows;
}

Mode mode(const Options& options) {
  constexpr std::array<std::string_view, 6> names = {"stream",         "pageable", "pinned",
                                                     "write-combined", "mapped",   "resident"};
  const auto name = std::ranges::find(names, options.text("pipeline.mode"));
  return static_cast<Mode>(name - names.begin());  // in the order of Mode
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

std::uint64_t Sizes::device_bytes(std::uint64_t element) const {
  return mode == Mode::mapped ? 0 : saturating_product(batch * element, batches);
}

std::uint64_t Sizes::host_bytes(std::uint64_t shard, std::uint64_t element) const {
  return (host_memory(mode) ? shard * element : 0) +
         (is_staged(mode) ? saturating_product(slot * element, slots) : 0);
}

Ring staging_ring(const Options& options, const runtime::Resources& resources, Reading reading) {
  Ring ring{};
  ring.readers = static_cast<unsigned>(
      count_or(options, "pipeline.readers",
               std::max(1U, std::min(resources.threads, most_readers(resources, reading)))));
  ring.slots = count_or(options, "pipeline.slots", 2 * ring.readers);
  ring.readers = static_cast<unsigned>(std::min<std::uint64_t>(ring.readers, ring.slots));
  ring.slot_bytes = size_or(options, "pipeline.slot", cached_slot(resources, 2, ring.slots, MiB));
  ring.drain_slot_bytes =
      size_or(options, "pipeline.slot", cached_slot(resources, 1, ring.slots, 2 * MiB));
  return ring;
}

std::uint64_t device_limit(const Options& options, const runtime::Resources& resources) {
  return size_or(options, "pipeline.gpu-memory", resources.device_memory / 10 * 9);
}

std::vector<std::pair<std::string, std::uint64_t>> resolved(const Sizes& sizes,
                                                            std::uint64_t element) {
  return {{"pipeline.batch", sizes.batch * element}, {"pipeline.batches", sizes.batches},
          {"pipeline.slot", sizes.slot * element},   {"pipeline.slots", sizes.slots},
          {"pipeline.readers", sizes.readers},       {"pipeline.gpu-memory", sizes.device_limit}};
}

Sizes plan(const Options& options, const runtime::Resources& resources, std::uint64_t shard,
           std::uint64_t element, std::uint64_t unit, std::uint64_t extra_per_unit,
           std::uint64_t extra, const std::optional<io::Decoding>& decoding) {
  // A shard needs no more than itself, so every size is cut to it, before anything is rounded up.
  const std::uint64_t whole_shard = whole_units(shard, unit);
  const auto elements = [&](std::uint64_t bytes) {
    return whole_units(std::min(ceil_div(bytes, element), whole_shard), unit);
  };
  Sizes sizes;
  sizes.mode = mode(options);
  const Ring ring =
      staging_ring(options, resources, decoding ? Reading::decoding : Reading::copying);
  sizes.readers = ring.readers;
  sizes.slots = ring.slots;
  sizes.slot = elements(ring.slot_bytes);
  sizes.batch = sizes.mode == Mode::resident && options.is_auto("pipeline.batch")
                    ? whole_shard
                    : elements(size_or(options, "pipeline.batch", 64 * MiB));
  sizes.batches = options.count("pipeline.batches");
  sizes.slot = std::min(sizes.slot, sizes.batch);
  const std::uint64_t all_batches = std::max<std::uint64_t>(1, ceil_div(shard, sizes.batch));
  if (sizes.mode == Mode::resident || sizes.batches > all_batches) sizes.batches = all_batches;
  sizes.slots = std::clamp<std::uint64_t>(ceil_div(shard, sizes.slot), 1, sizes.slots);
  sizes.readers = static_cast<unsigned>(std::min<std::uint64_t>(sizes.readers, sizes.slots));
  sizes.device_limit = device_limit(options, resources);
  check_device_memory(sizes, resources, options.count("pipeline.batches"), shard, element, unit,
                      extra_per_unit, extra);
  check_host_memory(sizes, resources, shard, element,
                    decoding ? decoding->host_bytes(sizes.readers) : 0);
  return sizes;
}

}  // namespace shardstream::pipeline
