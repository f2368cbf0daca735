#include "pipeline/stream_limits.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.hpp"
#include "core/units.hpp"

namespace shardstream::pipeline {
namespace {

/// `elements` rounded up to whole units, at least one unit.
std::uint64_t whole_units(std::uint64_t elements, std::uint64_t unit) {
  return std::max<std::uint64_t>(1, ceil_div(elements, unit)) * unit;
}

/// `host_bytes`: bytes of host memory that device_limit() leaves for other buffers.
void check_device_memory(const Sizes& sizes, const runtime::Resources& resources,
                         std::uint64_t wanted_batches, const ShardSize& shard,
                         const DeviceState& state, std::uint64_t host_bytes) {
  const std::uint64_t moved = shard.of.moved();
  const std::uint64_t need =
      sizes.device_bytes() + ceil_div(sizes.batch, state.unit) * state.per_unit + state.fixed;
  if (need <= sizes.device_limit) return;
  if (sizes.mode == Mode::resident) {
    throw UsageError(
        fmt::format("pipeline.mode is resident, but the rank's shard of {} does not fit into {} of "
                    "device memory ({} free): use --pipeline.mode stream, or more ranks",
                    format_size(shard.elements * shard.of.element), format_size(sizes.device_limit),
                    format_size(resources.device_memory)));
  }
  // With a smaller batch, there are as many batches as requested, and the state of one of them.
  const std::uint64_t converted = sizes.converted > 0 ? state.unit * shard.of.element : 0;
  const std::uint64_t per_unit = wanted_batches * state.unit * moved + converted + state.per_unit;
  const std::uint64_t units =
      sizes.device_limit > state.fixed ? (sizes.device_limit - state.fixed) / per_unit : 0;
  const bool leaves_room = resources.backend == Backend::host && host_bytes > 0;
  const std::string remedy =
      units > 0     ? fmt::format("use --pipeline.batch {}B or less", units * state.unit * moved)
      : leaves_room ? fmt::format(
                          "with --pipeline.gpu-memory auto, each rank needs {} of memory in "
                          "all; raise the memory limit of the job, or start fewer ranks per host",
                          format_size(need + resources.process_memory + host_bytes))
                    : fmt::format("use --pipeline.gpu-memory {}B or more", need);
  throw UsageError(fmt::format(
      "pipeline.batch: {} batches of {} need {} of device memory, but only {} may be used ({} "
      "free): {}",
      sizes.batches, format_size(sizes.batch * moved), format_size(need),
      format_size(sizes.device_limit), format_size(resources.device_memory), remedy));
}

void check_host_memory(const Sizes& sizes, const runtime::Resources& resources,
                       const ShardSize& shard, std::uint64_t decoding) {
  const std::uint64_t need = sizes.host_bytes(shard.elements) + decoding +
                             resources.process_memory +
                             (resources.backend == Backend::host ? sizes.device_bytes() : 0);
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

ElementSize element_size(const io::Source& source, Backend backend) {
  const io::Conversions& conversions = source.conversions();
  const bool on_device = backend == Backend::cuda && conversions.always_fit();
  return {.converter = conversions.empty() ? Converter::none
                       : on_device         ? Converter::device
                                           : Converter::readers,
          .stored = source.stored_size(),
          .element = size_of(source.type())};
}

std::uint64_t Sizes::device_bytes() const {
  const std::uint64_t ring =
      mode == Mode::mapped ? 0 : saturating_product(batch * of.moved(), batches);
  return saturating_sum({ring, saturating_product(converted, of.element)});
}

std::uint64_t Sizes::host_bytes(std::uint64_t shard) const {
  // A reader that converts has the stored elements in the slot, too.
  const std::uint64_t in_slot = of.moved() + (of.converter == Converter::readers ? of.stored : 0);
  const std::uint64_t rings = is_staged(mode) ? saturating_product(slot * in_slot, slots) : 0;
  if (!host_memory(mode)) return rings;
  // A reader that loads elements as they are stored has those of a slot.
  const bool converts = of.converter != Converter::none;
  return saturating_sum(
      {rings, shard * of.moved(), converts ? saturating_product(slot * of.stored, readers) : 0});
}

std::uint64_t Sizes::bytes_of_pass() const {
  if (mode == Mode::stream) return of.stored;
  return mode == Mode::resident ? of.element : of.moved();
}

std::uint64_t Sizes::device_bytes_of_pass() const {
  if (of.converter != Converter::device || mode == Mode::resident) return of.element;
  return of.stored + 2 * of.element;
}

ShardSize size_of_shard(const io::Source& source, Range shard, Backend backend) {
  return {shard.count, element_size(source, backend), source.decoding()};
}

namespace {

/// Bytes of host memory of the readers that decode.
std::uint64_t decoding_bytes(const ShardSize& shard, const Sizes& sizes) {
  return shard.decoding ? shard.decoding->host_bytes(sizes.readers) : 0;
}

/// The bytes of host memory that device_limit() leaves: without a shard in host memory, which
/// check_host_memory() counts.
std::uint64_t host_bytes_of(const ShardSize& shard, const Sizes& sizes) {
  return saturating_sum({sizes.host_bytes(0), decoding_bytes(shard, sizes)});
}

/// The bytes of a batch. Few CPUs are at work with less; more memory would take longer to touch
/// than a small file takes to read.
std::uint64_t default_batch(const runtime::Resources& resources) {
  constexpr std::uint64_t most = std::uint64_t{64} << 20, of_thread = most / 8;
  if (resources.backend != Backend::host) return most;
  return std::clamp(resources.threads * of_thread, 2 * of_thread, most);
}

/// choose_sizes() without checks.
Sizes unchecked_sizes(const RingOptions& options, const runtime::Resources& resources,
                      const ShardSize& shard, const DeviceState& state) {
  // Every size is limited to the size of the shard before it is rounded up.
  const std::uint64_t whole_shard = whole_units(shard.elements, state.unit);
  const auto elements = [&](std::uint64_t bytes) {
    return whole_units(std::min(ceil_div(bytes, shard.of.moved()), whole_shard), state.unit);
  };
  Sizes sizes;
  sizes.mode = options.mode;
  sizes.of = shard.of;
  const StagingSizes staged = staging_sizes(
      options, resources, shard.decoding ? ReaderWork::decoding : ReaderWork::copying);
  sizes.readers = staged.readers;
  sizes.slots = staged.slots;
  sizes.slot = elements(staged.slot_bytes);
  if (shard.decoding && !options.slot) {
    // A small selection of large chunks takes long to decode, so all readers must share it.
    constexpr std::uint64_t pieces_a_reader = 4;
    const std::uint64_t piece = ceil_div(shard.elements, pieces_a_reader * sizes.readers);
    sizes.slot = std::min(sizes.slot, whole_units(piece, state.unit));
  }
  // A device that converts a shard as it is loaded keeps it apart from the ring.
  const bool converts = shard.of.converter == Converter::device;
  const bool ring_has_all = sizes.mode == Mode::resident && !converts;
  sizes.batch = ring_has_all && !options.batch
                    ? whole_shard
                    : elements(options.batch.value_or(default_batch(resources)));
  sizes.batches = options.batches;
  sizes.slot = std::min(sizes.slot, sizes.batch);
  const std::uint64_t all_batches =
      std::max<std::uint64_t>(1, ceil_div(shard.elements, sizes.batch));
  if (ring_has_all || sizes.batches > all_batches) sizes.batches = all_batches;
  if (converts) sizes.converted = sizes.mode == Mode::resident ? whole_shard : sizes.batch;
  sizes.slots = std::clamp<std::uint64_t>(ceil_div(shard.elements, sizes.slot), 1, sizes.slots);
  sizes.readers = static_cast<unsigned>(std::min<std::uint64_t>(sizes.readers, sizes.slots));
  sizes.device_limit = device_limit(options, resources, host_bytes_of(shard, sizes));
  return sizes;
}

}  // namespace

Sizes choose_sizes(const RingOptions& options, const runtime::Resources& resources,
                   const ShardSize& shard, const DeviceState& state) {
  const Sizes sizes = unchecked_sizes(options, resources, shard, state);
  check_device_memory(sizes, resources, options.batches, shard, state,
                      options.gpu_memory ? 0 : host_bytes_of(shard, sizes));
  check_host_memory(sizes, resources, shard, decoding_bytes(shard, sizes));
  return sizes;
}

BatchMemory batch_memory(const RingOptions& options, const runtime::Resources& resources,
                         const ShardSize& shard, const DeviceState& state) {
  const Sizes sizes = unchecked_sizes(options, resources, shard, state);
  const std::uint64_t need =
      saturating_sum({sizes.device_bytes(), ceil_div(sizes.batch, state.unit) * state.per_unit});
  return {need, sizes.device_limit - std::min(sizes.device_limit, need), sizes.batch,
          resources.backend};
}

std::vector<std::pair<std::string, std::uint64_t>> resolved(const Sizes& sizes) {
  const std::uint64_t element = sizes.of.moved();
  return {{"pipeline.batch", sizes.batch * element}, {"pipeline.batches", sizes.batches},
          {"pipeline.slot", sizes.slot * element},   {"pipeline.slots", sizes.slots},
          {"pipeline.readers", sizes.readers},       {"pipeline.gpu-memory", sizes.device_limit}};
}

measure::Readers readers_of(const Sizes& sizes) {
  return {sizes.readers, sizes.slot, sizes.of.converter == Converter::readers};
}

std::vector<measure::Ceiling> memory_ceilings(const runtime::Runtime& runtime, const Sizes& sizes,
                                              std::uint64_t shard) {
  const std::uint64_t element = sizes.of.moved(), shard_bytes = shard * element;
  const auto& resources = runtime.resources;
  const ranks::Session& session = runtime.session;
  const std::uint64_t bytes =
      measure::host_memory_sample(resources.cache, resources.host_memory, resources.ranks_on_host);
  // Slots stay in the cache; without slots the data comes from memory.
  const measure::Effort effort = measure::effort_for(
      *runtime.device, session, shard_bytes,
      is_staged(sizes.mode) ? sizes.slots * sizes.slot * element : bytes, sizes.device_limit);
  std::vector<measure::Ceiling> ceilings;
  const bool read_in_place = sizes.mode == Mode::mapped && resources.backend == Backend::host;
  if (sizes.mode != Mode::resident && !read_in_place) {
    ceilings.push_back(measure::link(measure::LinkDirection::up, *runtime.device, session, effort));
  }
  if (resources.backend == Backend::cuda && sizes.mode != Mode::mapped) {
    ceilings.push_back(measure::device_read(*runtime.device, session, effort));
  }
  // Below this size, a shard could stay in the processor's caches.
  const bool too_small = session.max(bytes > shard_bytes ? 1 : 0) > 0;
  const bool copied = sizes.mode == Mode::pageable, read = resources.backend == Backend::host;
  if (sizes.mode == Mode::stream || too_small || !(copied || read)) return ceilings;
  const measure::HostMemory memory(session, resources.threads, bytes);
  if (copied) ceilings.push_back(memory.copy({sizes.readers, sizes.slots, sizes.slot * element}));
  if (read) ceilings.push_back(memory.read());
  return ceilings;
}

}  // namespace shardstream::pipeline
