#include "workloads/product/product_limits.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "device/buffer.hpp"
#include "kernels/data/generate.hpp"
#include "kernels/gemm/multiply/multiply.hpp"
#include "kernels/gemm/panel/panel.hpp"
#include "kernels/gemm/residues/residues.hpp"
#include "measure/source_ceilings.hpp"
#include "workloads/product/engine/panel_rates.hpp"
#include "workloads/product/plan/description.hpp"

namespace shardstream::workloads::product {
namespace {

/// "tiles of 256 x 256 x 1024"
std::string words_of(const gemm::Tile& tile) {
  return fmt::format("tiles of {} x {} x {}{}", tile.m, tile.n, tile.k, words_of_parts(tile));
}

/// The columns of /ceilings for products of `tile`.
measure::Sizes sizes_of(const gemm::Tile& tile) {
  const auto number = [](std::uint64_t size) { return static_cast<std::int64_t>(size); };
  measure::Sizes sizes{{"tile_m", number(tile.m)},
                       {"tile_n", number(tile.n)},
                       {"tile_k", number(tile.k)},
                       {"lanes", number(tile.lanes)},
                       {"fold", number(tile.fold)}};
  if (tile.moduli > 0) sizes["moduli"] = number(tile.moduli);
  return sizes;
}

/// Whether products of `tile` are about as fast as those of the tile with these sizes. The lanes,
/// the fold and the moduli must be equal. Each edge and the number of multiplications may differ by
/// a factor of at most two. The number alone would not distinguish a narrow tile from a square one.
bool is_similar(const measure::Sizes& sizes, const gemm::Tile& tile) {
  const auto value = [&](const std::string& name) {
    const auto found = sizes.find(name);
    return found == sizes.end() ? 0.0 : static_cast<double>(found->second);
  };
  const auto near = [](double x, std::uint64_t size) {
    const auto y = static_cast<double>(size);
    return x <= 2 * y && y <= 2 * x;
  };
  const double m = value("tile_m"), n = value("tile_n"), k = value("tile_k");
  return near(m, tile.m) && near(n, tile.n) && near(k, tile.k) &&
         near(m * n * k, tile.m * tile.n * tile.k) &&
         value("lanes") == static_cast<double>(tile.lanes) &&
         value("fold") == static_cast<double>(tile.fold) &&
         value("moduli") == static_cast<double>(tile.moduli);
}

/// Rates::call: assumed, as with an H100, and as for a kernel on a few threads of a host.
double seconds_of_call(Backend backend) {
  return backend == Backend::host ? 20e-6 : 6e-6;
}

/// Flop of the whole product, without padding. A symmetric product computes only half of it.
double whole_flops(const Operands& operands) {
  const double all = 2.0 * static_cast<double>(operands.moments().count) *
                     static_cast<double>(operands.m) * static_cast<double>(operands.n) *
                     static_cast<double>(operands.k);
  return operands.symmetric ? all / 2 : all;
}

/// Products of tiles that stay in device memory, in Gflop/s: multiply_fp64, multiply_tf32, ... The
/// panels are random, since products of zeros run faster. Collective.
measure::Ceiling multiply(device::Device& device, const ranks::Session& session,
                          measure::Effort effort, gemm::Precision precision,
                          const gemm::Tile& tile) {
  const Backend backend = backend_named(device.info().backend);
  const std::size_t element = gemm::panel_element_bytes(precision, backend);
  const std::uint64_t depth = gemm::factor_depth(precision, tile.k);
  const gemm::Precision of_factors = gemm::factors_of(precision);
  const ElementType from = gemm::takes(precision, ElementType::f32)
                               ? ElementType::f32
                               : gemm::traits_of(precision).generated;
  const std::uint64_t lda = gemm::a_ld(precision, depth, backend), a_elements = tile.m * lda;
  const std::uint64_t b_elements = depth * tile.n;
  const std::uint64_t c_bytes =
      tile.lanes * tile.lane_elements() * gemm::accumulator_bytes(precision);
  // Two tiles, which a GPU computes side by side, if there is room for them. A narrow product has
  // one, and does not read A.
  const std::uint64_t two = (2 * a_elements + b_elements) * (element + tile.moduli) + 2 * c_bytes;
  const std::uint64_t tiles = two <= effort.device_bytes && !tile.is_narrow() ? 2 : 1;
  const std::uint64_t streams = std::min<std::uint64_t>(tiles, gemm::multiply_streams(backend));
  std::unique_ptr<gemm::MultiplyPlan> plan;
  device::Buffer<float> random, raw;
  device::Buffer<std::byte> a, b, c, a_planes, b_planes, scratch;
  device::Buffer<std::int32_t> exponents;
  const std::uint64_t lines = tiles * tile.m;  // of A; those of B follow them
  measure::StreamWork work;
  session.collectively([&] {
    plan = gemm::make_multiply_plan(precision, tile, backend);
    const std::uint64_t max = std::max(a_elements, b_elements);
    random = {device, device::Memory::pinned, max};
    raw = {device, device::Memory::device, max};
    a = {device, device::Memory::device, tiles * a_elements * element};
    b = {device, device::Memory::device, b_elements * element};
    c = {device, device::Memory::device, tiles * c_bytes};
    for (std::uint64_t i = 0; i < streams; ++i) work.streams.push_back(device.make_stream());
    device::Stream& stream = *work.streams[0];
    generate(Generator::uniform, from, 1, 0, max, reinterpret_cast<std::byte*>(random.data()));
    stream.upload(raw.data(), random.data(), max * size_of(from));
    for (std::uint64_t i = 0; i < tiles; ++i) {
      stream.launch(gemm::canonicalize_kernel(),
                    {raw.data(), from, false, a.data() + i * a_elements * element, of_factors,
                     tile.m, depth, lda});
    }
    stream.launch(gemm::canonicalize_kernel(),
                  {raw.data(), from, false, b.data(), of_factors, depth, tile.n, tile.n});
    if (tile.moduli > 0) {
      a_planes = {device, device::Memory::device, tile.moduli * tiles * a_elements};
      b_planes = {device, device::Memory::device, tile.moduli * b_elements};
      scratch = {device, device::Memory::device, gemm::residue_scratch_lines * tile.k * element};
      exponents = {device, device::Memory::device, lines + tile.n};
      const auto convert = [&](gemm::Side side, const auto& panel, std::uint64_t count,
                               std::uint64_t ld, auto& planes, std::int32_t* to) {
        stream.launch(
            gemm::residues_kernel(),
            {panel.data(), precision, side, count, tile.k, ld, tile.moduli,
             reinterpret_cast<std::int8_t*>(planes.data()), count * tile.k, to, scratch.data()});
      };
      convert(gemm::Side::a, a, lines, lda, a_planes, exponents.data());
      convert(gemm::Side::b, b, tile.n, tile.n, b_planes, exponents.data() + lines);
    }
    stream.synchronize();
  });
  const std::uint64_t ldb = gemm::multiplies_transposed_b(precision, backend) ? depth : tile.n;
  const std::vector<gemm::TileAt> at = gemm::all_tiles(tiles, 1);
  const auto residues = [&](const auto& planes, std::uint64_t count, std::uint64_t first) {
    return gemm::Residues{reinterpret_cast<const std::int8_t*>(planes.data()), count * tile.k,
                          exponents.data() + first};
  };
  const gemm::Residues a_residues = residues(a_planes, lines, 0),
                       b_residues = residues(b_planes, tile.n, lines);
  work.enqueue = [&] {
    const std::uint64_t each = tiles / streams;
    for (unsigned i = 0; i < streams; ++i) {
      work.streams[i]->launch(gemm::multiply_kernel(), {.plan = plan.get(),
                                                        .k = tile.k,
                                                        .a = a.data(),
                                                        .b = b.data(),
                                                        .ldb = ldb,
                                                        .tiles = c.data() + i * each * c_bytes,
                                                        .at = at.data() + i * each,
                                                        .count = each,
                                                        .first = true,
                                                        .workspace = i,
                                                        .residues = {a_residues, b_residues}});
    }
  };
  const double flop = 2.0 * static_cast<double>(tiles * tile.m) * static_cast<double>(tile.n) *
                      static_cast<double>(tile.k);
  return measure::measured(fmt::format("multiply_{}", word_of(precision)), "Gflop/s", flop, session,
                           effort, work);
}

/// The rates of readers, if there are any. Collective.
Limits reader_limits(runtime::Runtime& runtime, const Operands& operands,
                     const pipeline::StagingSizes& staging, std::uint64_t sample,
                     measure::Effort effort) {
  Limits limits;
  if (!pipeline::is_staged(runtime.options)) return limits;
  const PanelReaders readers(runtime, operands, staging, std::min(sample, effort.host_bytes));
  limits.read = readers.read(std::max(0.01, effort.seconds / 2));
  limits.feed = readers.feed(effort.seconds / 2, limits.read->min, effort.device_bytes);
  limits.read->conditions = limits.feed->conditions =
      panel_read_conditions(operands, runtime.options);
  return limits;
}

/// The ceiling of a long product is measured again, for longer, because a GPU at its power limit is
/// slower than one that has just started. Collective.
measure::Ceiling multiply_limit(runtime::Runtime& runtime, const Operands& operands,
                                const gemm::Tile& tile, measure::Effort effort) {
  const auto measured = [&] {
    return multiply(*runtime.device, runtime.session, effort, operands.precision, tile);
  };
  measure::Ceiling ceiling = measured();
  const double seconds = whole_flops(operands) / (ceiling.aggregate * 1e9);
  if (seconds < 4 * effort.seconds) return ceiling;
  effort.seconds = std::min(seconds / 2, 0.4);
  return measured();
}

/// Rates::link_up and Rates::read.
struct UploadRates {
  double up, read = std::numeric_limits<double>::infinity();
};

/// The rates of an earlier result: of the link alone if there are no readers. If the result is too
/// old to have panel_feed, readers are assumed to reach 0.6 of panel_read while uploads use the
/// same memory, as on H100 hosts. If it has neither, readers are assumed to be as fast as the link.
UploadRates upload_rates(measure::Machine& machine, const Options& options, const Rates* measured) {
  constexpr double beside_uploads = 0.6;
  const double up = machine.use_rate(
      "link_up", measured == nullptr ? std::nullopt : std::optional(measured->link_up));
  if (!pipeline::is_staged(options)) return {up};
  const bool knows_feed = machine.knows("panel_feed"), knows_read = machine.knows("panel_read");
  if (!knows_feed && !knows_read) machine.add_missing({"panel_feed", "panel_read"});
  const double other_feed = measured == nullptr ? up : std::min(up, measured->link_up);
  const double other_read = measured == nullptr ? up / beside_uploads : measured->read;
  const double read = knows_read ? machine.use_rate("panel_read", other_read, "GB/s") : other_read;
  if (knows_feed) return {std::min(up, machine.use_rate("panel_feed", up, "GB/s")), read};
  return {knows_read ? std::min(up, beside_uploads * read) : other_feed, read};
}

}  // namespace

Rates Limits::rates(Backend backend) const {
  const double infinity = std::numeric_limits<double>::infinity();
  return {.link_up = std::min(feed ? feed->min : infinity, up.min) * 1e9,
          .link_down = down.min * 1e9,
          .gather = gather ? gather->min * 1e9 : 1e12,
          .flops = multiply.min * 1e9,
          .read = read ? read->min * 1e9 : infinity,
          .device = device_copy.min * 1e9,
          .call = seconds_of_call(backend),
          .gathers_block = gathers_block};
}

std::string panel_read_conditions(const Operands& operands, const Options& options) {
  std::set<std::string> kinds;
  for (const auto* matrix : {operands.a.get(), operands.b.get()}) {
    kinds.insert(measure::read_conditions(matrix->source(), true));
  }
  return fmt::format("{}, read as {}{}{}", fmt::join(kinds, " and "), word_of(operands.precision),
                     pipeline::mode(options) == pipeline::Mode::pageable ? ", from memory" : "",
                     operands.uploads_as_stored() ? ", to be centred or scaled" : "");
}

Limits measure_limits(runtime::Runtime& runtime, const Operands& operands, const gemm::Tile& tile,
                      const pipeline::StagingSizes& staging, std::uint64_t device_limit) {
  const auto span = runtime.recorder.phase("ceilings", measure::PhaseKind::useful);
  const ranks::Session& session = runtime.session;
  device::Device& device = *runtime.device;
  const double bytes =
      4.0 *
      (static_cast<double>(operands.m + operands.n) * static_cast<double>(operands.k) +
       static_cast<double>(operands.m) * static_cast<double>(operands.n)) /
      session.size();
  const std::uint64_t sample = measure::host_memory_sample(
      runtime.resources.cache, runtime.resources.host_memory, runtime.resources.ranks_on_host);
  const auto effort =
      measure::effort_for(device, session, static_cast<std::uint64_t>(bytes), sample, device_limit);
  constexpr std::size_t max_gathered = std::size_t{64} << 20;
  Limits limits = reader_limits(runtime, operands, staging, sample, effort);
  limits.up = measure::link(measure::LinkDirection::up, device, session, effort);
  limits.down = measure::link(measure::LinkDirection::down, device, session, effort);
  limits.device_copy = measure::device_copy(device, session, effort);
  limits.multiply = multiply_limit(runtime, operands, tile, effort);
  limits.gather = measure::all_gather(
      device, *runtime.communicator, session, effort,
      std::clamp<std::uint64_t>(
          effort.device_bytes / static_cast<std::uint64_t>(session.size()) / 256 * 256, 256,
          max_gathered));
  limits.gathers_block = runtime.communicator->blocks();
  limits.multiply.conditions = words_of(tile);
  limits.multiply.sizes = sizes_of(tile);
  return limits;
}

Rates rates_of(measure::Machine& machine, const Operands& operands, const Options& options,
               const Rates* measured) {
  const gemm::Precision precision = operands.precision;
  const std::string multiply = fmt::format("multiply_{}", word_of(precision));
  std::set<std::string> ceilings = {"link_up", "link_down", "device_copy", "all_gather", multiply};
  if (pipeline::is_staged(options)) {
    for (const char* const readers : {"panel_read", "panel_feed"}) {
      ceilings.insert(readers);
      machine.compare(readers, panel_read_conditions(operands, options));
    }
  }
  machine.set_ceilings(std::move(ceilings));
  const gemm::Tile tile = operands.tile(machine.backend());
  machine.compare(multiply, words_of(tile),
                  [&](const measure::Sizes& then) { return is_similar(then, tile); });
  machine.set_main_ceiling(multiply);
  const auto otherwise = [&](double Rates::*rate) {
    return measured == nullptr ? std::nullopt : std::optional(measured->*rate);
  };
  const double assumed = gemm::calls_of(precision, machine.backend()).assumed_gflops;
  const double gflops = otherwise(&Rates::flops).value_or(assumed * 1e9) / 1e9;
  const UploadRates uploads = upload_rates(machine, options, measured);
  return {.link_up = uploads.up,
          .link_down = machine.use_rate("link_down", otherwise(&Rates::link_down)),
          .gather = machine.ranks() > 1 ? machine.use_gather_rate(otherwise(&Rates::gather)) : 1e12,
          .flops = machine.use_rate(multiply, gflops, "Gflop/s"),
          .read = uploads.read,
          .device = machine.use_rate("device_copy", otherwise(&Rates::device)),
          .call = seconds_of_call(machine.backend()),
          .gathers_block = measured == nullptr ? machine.transport() == comm::Transport::mpi
                                               : measured->gathers_block};
}

Rates planning_rates(runtime::Runtime& runtime, const Operands& operands, const Limits& limits) {
  const Rates measured = limits.rates(runtime.resources.backend);
  if (runtime.options.text("measure.rates").empty()) return measured;
  const ranks::Session& session = runtime.session;
  std::vector<Rates> given;
  session.collectively([&] {
    if (session.rank() != 0) return;
    measure::Machine machine(runtime.options,
                             {.ranks = static_cast<std::uint64_t>(session.size()),
                              .ranks_on_host = static_cast<std::uint64_t>(session.local_size()),
                              .backend = runtime.device->info().backend});
    given = {rates_of(machine, operands, runtime.options, &measured)};
    machine.warn(runtime.log);
  });
  return session.gather(given).at(0);
}

std::vector<measure::Ceiling> loaded(Limits&& limits, const Loads& loads) {
  std::vector<measure::Ceiling> ceilings;
  const auto add = [&](measure::Ceiling&& ceiling, double load) {
    ceiling.on_path = true;
    ceiling.load = load / 1e9;
    ceilings.push_back(std::move(ceiling));
  };
  if (limits.read) add(std::move(*limits.read), loads.uploaded);
  add(std::move(limits.up), loads.uploaded);
  add(std::move(limits.down), loads.downloaded);
  if (limits.gather) add(std::move(*limits.gather), loads.received);
  add(std::move(limits.multiply), loads.flops);
  // These depend on other ceilings, or limit only a small part of the work.
  if (limits.feed) ceilings.push_back(std::move(*limits.feed));
  ceilings.push_back(std::move(limits.device_copy));
  return ceilings;
}

}  // namespace shardstream::workloads::product
