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
              "The place of the data when timing begins: its source (stream); ordinary (pageable), "
              "pinned or write-combined host memory; pinned memory that kernels read over the link "
              "(mapped); or device memory (resident). Matrix products take stream and pageable."},
    OptionRow{"pipeline.batch", OptionKind::size, "auto", "auto|1..",
              "Bytes that one kernel call processes, rounded up to whole leaves (a leaf is 65536 "
              "elements, which are added in one fixed order); auto is 64MiB, or the whole shard in "
              "mode resident."},
    OptionRow{"pipeline.batches", OptionKind::count, "3", "1..64",
              "Number of batches in device memory: kernels work on one while the others fill."},
    OptionRow{"pipeline.slot", OptionKind::size, "auto", "auto|1..",
              "Bytes of one pinned staging slot, rounded up to whole leaves of 65536 elements, or "
              "for a matrix product to some rows of a matrix; auto keeps the ring in the "
              "last-level cache: 1 to 4MiB for uploads, 2 to "
              "4MiB for downloads, 1MiB on the host backend."},
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

/// `elements` rounded up to whole units, at least one unit.
std::uint64_t whole_units(std::uint64_t elements, std::uint64_t unit) {
  return std::max<std::uint64_t>(1, ceil_div(elements, unit)) * unit;
}

std::uint64_t count_or(const Options& options, std::string_view key, std::uint64_t chosen) {
  return options.is_auto(key) ? chosen : options.count(key);
}
std::uint64_t size_or(const Options& options, std::string_view key, std::uint64_t chosen) {
  return options.is_auto(key) ? chosen : options.bytes(key);
}

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

/// `host_bytes`: bytes of host memory that device_limit() leaves for other buffers.
void check_device_memory(const Sizes& sizes, const runtime::Resources& resources,
                         std::uint64_t wanted_batches, std::uint64_t shard, std::uint64_t element,
                         std::uint64_t unit, std::uint64_t extra_per_unit, std::uint64_t extra,
                         std::uint64_t host_bytes) {
  const std::uint64_t partials = ceil_div(sizes.batch, unit) * extra_per_unit + extra;
  const std::uint64_t need = sizes.device_bytes(element) + partials;
  if (need <= sizes.device_limit) return;
  if (sizes.mode == Mode::resident) {
    throw UsageError(
        fmt::format("pipeline.mode is resident, but the rank's shard of {} does not fit into {} of "
                    "device memory ({} free): use --pipeline.mode stream, or more ranks",
                    format_size(shard * element), format_size(sizes.device_limit),
                    format_size(resources.device_memory)));
  }
  // With a smaller batch, there are as many batches as requested, and one set of extras for the
  // units of a batch.
  const std::uint64_t per_unit = wanted_batches * unit * element + extra_per_unit;
  const std::uint64_t units =
      sizes.device_limit > extra ? (sizes.device_limit - extra) / per_unit : 0;
  const bool leaves_room = resources.backend == Backend::host && host_bytes > 0;
  const std::string remedy =
      units > 0     ? fmt::format("use --pipeline.batch {}B or less", units * unit * element)
      : leaves_room ? fmt::format(
                          "with --pipeline.gpu-memory auto, each rank needs {} of memory in "
                          "all; raise the memory limit of the job, or start fewer ranks per host",
                          format_size(need + resources.process_memory + host_bytes))
                    : fmt::format("use --pipeline.gpu-memory {}B or more", need);
  throw UsageError(fmt::format(
      "pipeline.batch: {} batches of {} need {} of device memory, but only {} may be used ({} "
      "free): {}",
      sizes.batches, format_size(sizes.batch * element), format_size(need),
      format_size(sizes.device_limit), format_size(resources.device_memory), remedy));
}

void check_host_memory(const Sizes& sizes, const runtime::Resources& resources, std::uint64_t shard,
                       std::uint64_t element, std::uint64_t decoding) {
  const std::uint64_t need = sizes.host_bytes(shard, element) + decoding +
                             resources.process_memory +
                             (resources.backend == Backend::host ? sizes.device_bytes(element) : 0);
  const std::uint64_t have = resources.host_memory / resources.ranks_on_host;
  if (need <= have) return;
  throw UsageError(fmt::format(
      "a rank needs {} of host memory but has {}: {}", format_size(need), format_size(have),
      sizes.mode == Mode::stream
          ? "use smaller --pipeline.batch, --pipeline.slot or --pipeline.slots, or fewer ranks per "
            "host"
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

StagingSizes staging_sizes(const Options& options, const runtime::Resources& resources,
                           ReaderWork work) {
  StagingSizes sizes{};
  sizes.readers = static_cast<unsigned>(
      count_or(options, "pipeline.readers",
               std::max(1U, std::min(resources.threads, max_readers(resources, work)))));
  sizes.slots = count_or(options, "pipeline.slots", 2 * sizes.readers);
  sizes.readers = static_cast<unsigned>(std::min<std::uint64_t>(sizes.readers, sizes.slots));
  sizes.slot_bytes = size_or(options, "pipeline.slot", cached_slot(resources, 2, sizes.slots, MiB));
  sizes.drain_slot_bytes =
      size_or(options, "pipeline.slot", cached_slot(resources, 1, sizes.slots, 2 * MiB));
  return sizes;
}

std::uint64_t device_limit(const Options& options, const runtime::Resources& resources,
                           std::uint64_t host_bytes) {
  std::uint64_t limit = resources.device_memory / 10 * 9;
  if (resources.backend == Backend::host) {
    const std::uint64_t other = saturating_sum({resources.process_memory, host_bytes});
    limit = std::min(limit, resources.device_memory - std::min(resources.device_memory, other));
  }
  return size_or(options, "pipeline.gpu-memory", limit);
}

std::vector<std::pair<std::string, std::uint64_t>> resolved(const Sizes& sizes,
                                                            std::uint64_t element) {
  return {{"pipeline.batch", sizes.batch * element}, {"pipeline.batches", sizes.batches},
          {"pipeline.slot", sizes.slot * element},   {"pipeline.slots", sizes.slots},
          {"pipeline.readers", sizes.readers},       {"pipeline.gpu-memory", sizes.device_limit}};
}

Sizes choose_sizes(const Options& options, const runtime::Resources& resources, std::uint64_t shard,
                   std::uint64_t element, std::uint64_t unit, std::uint64_t extra_per_unit,
                   std::uint64_t extra, const std::optional<io::Decoding>& decoding) {
  // Every size is limited to the size of the shard before it is rounded up.
  const std::uint64_t whole_shard = whole_units(shard, unit);
  const auto elements = [&](std::uint64_t bytes) {
    return whole_units(std::min(ceil_div(bytes, element), whole_shard), unit);
  };
  Sizes sizes;
  sizes.mode = mode(options);
  const StagingSizes staged =
      staging_sizes(options, resources, decoding ? ReaderWork::decoding : ReaderWork::copying);
  sizes.readers = staged.readers;
  sizes.slots = staged.slots;
  sizes.slot = elements(staged.slot_bytes);
  sizes.batch = sizes.mode == Mode::resident && options.is_auto("pipeline.batch")
                    ? whole_shard
                    : elements(size_or(options, "pipeline.batch", 64 * MiB));
  sizes.batches = options.count("pipeline.batches");
  sizes.slot = std::min(sizes.slot, sizes.batch);
  const std::uint64_t all_batches = std::max<std::uint64_t>(1, ceil_div(shard, sizes.batch));
  if (sizes.mode == Mode::resident || sizes.batches > all_batches) sizes.batches = all_batches;
  sizes.slots = std::clamp<std::uint64_t>(ceil_div(shard, sizes.slot), 1, sizes.slots);
  sizes.readers = static_cast<unsigned>(std::min<std::uint64_t>(sizes.readers, sizes.slots));
  const std::uint64_t decoding_bytes = decoding ? decoding->host_bytes(sizes.readers) : 0;
  // Without a shard in host memory, which check_host_memory() counts.
  const std::uint64_t host_bytes = saturating_sum({sizes.host_bytes(0, element), decoding_bytes});
  sizes.device_limit = device_limit(options, resources, host_bytes);
  check_device_memory(sizes, resources, options.count("pipeline.batches"), shard, element, unit,
                      extra_per_unit, extra,
                      options.is_auto("pipeline.gpu-memory") ? host_bytes : 0);
  check_host_memory(sizes, resources, shard, element, decoding_bytes);
  return sizes;
}

}  // namespace shardstream::pipeline
