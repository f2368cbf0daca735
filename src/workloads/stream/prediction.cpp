#include "workloads/stream/task.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "core/text.hpp"
#include "core/units.hpp"

namespace shardstream::workloads::stream {
namespace {

/// A known ceiling on the path of the data.
struct KnownCeiling {
  std::string name;
  double rate;  ///< bytes/s
};

/// The known ceilings on the path of the data.
struct Path {
  std::vector<KnownCeiling> ceilings = {};
  bool knows_source = true;  ///< a rate of the source is known

  const KnownCeiling& lowest() const {
    return *std::ranges::min_element(ceilings, {}, &KnownCeiling::rate);
  }
};

/// Adds the ceilings of the source in mode stream.
void add_source(Path& path, const std::vector<std::string>& ways, measure::Machine& machine) {
  path.knows_source = false;
  for (const std::string& way : ways) {
    if (!machine.knows(way)) continue;
    path.knows_source = true;
    path.ceilings.push_back({way, machine.use_rate(way, 0, "GB/s")});
  }
  if (!path.knows_source) machine.add_missing(ways);
}

/// `of` has the bytes of an element on its way. Rates are those of the bytes of a pass.
Path path_of(pipeline::Mode mode, const pipeline::ElementSize& of, const io::Source& source,
             measure::Machine& machine) {
  Path path;
  if (mode == pipeline::Mode::resident) {
    const std::string name =
        machine.backend() == Backend::host ? "host_memory_read" : "device_read";
    machine.set_ceilings({name});
    path.ceilings.push_back({name, machine.use_rate(name)});
    return path;
  }
  const bool converts = of.converter == pipeline::Converter::readers;
  const auto reads = source.file_reads();
  const std::vector<std::string> ways =
      reads && reads->is_exact && !converts
          ? std::vector<std::string>{"page_cache_read", "storage_read"}
          : std::vector<std::string>{"decode"};
  std::set<std::string> limits{"link_up"};
  if (mode == pipeline::Mode::stream) limits.insert(ways.begin(), ways.end());
  machine.set_ceilings(limits);
  machine.compare("decode", measure::read_conditions(source, converts));
  const pipeline::Sizes pass{.mode = mode, .of = of};
  path.ceilings.push_back(
      {"link_up", machine.use_rate("link_up") * static_cast<double>(pass.bytes_of_pass()) /
                      static_cast<double>(of.moved())});
  if (mode == pipeline::Mode::stream) add_source(path, ways, machine);
  return path;
}

/// A rank of the planned machine.
runtime::Resources planned_rank(const Options& options, measure::Machine& machine) {
  return {.host_memory = UINT64_MAX,
          .device_memory = machine.device_memory(options),
          .process_memory = runtime::process_memory(machine.threads()),
          .backend = machine.backend()};
}

/// The memory that a rank needs, as lines of text.
std::vector<std::string> memory_of(const pipeline::Sizes& sizes, const pipeline::ShardSize& shard,
                                   const pipeline::DeviceState& state,
                                   const measure::Machine& machine) {
  const std::uint64_t own = state.fixed + ceil_div(sizes.batch, state.unit) * state.per_unit;
  std::vector<std::string> lines = {
      fmt::format("device memory: {} of {}: {} of {}{}", format_size(sizes.device_bytes()),
                  format_size(sizes.device_limit), counted(sizes.batches, "batch"),
                  format_size(sizes.batch * shard.of.moved()),
                  own > 0 ? fmt::format("; up to {} for partial results", format_size(own)) : "")};
  if (pipeline::host_memory(sizes.mode)) {
    const std::uint64_t bytes = shard.elements * shard.of.moved();
    lines.push_back(
        fmt::format("host memory: {} for the shard of each rank, {} on a host; not "
                    "checked",
                    format_size(bytes), format_size(bytes * machine.ranks_on_host())));
  }
  return lines;
}

/// How the ranks share the data.
std::string shard_line(std::string_view unit_word, std::uint64_t unit, std::uint64_t elements,
                       const pipeline::ShardSize& own) {
  const std::string bytes = format_size(own.elements * own.of.stored);
  if (unit_word.empty()) {
    return fmt::format("shard of rank 0: {} elements, {}", own.elements, bytes);
  }
  return fmt::format("{}: {} of {} elements; shard of rank 0: {} of them, {}", unit_word,
                     ceil_div(elements, unit), unit, ceil_div(own.elements, unit), bytes);
}

/// One line each on the data, their conversion, attributes that are applied, and rank 0's shard.
std::vector<std::string> plan_of(const io::Source& source, const std::string& shard_line,
                                 const pipeline::ShardSize& size) {
  const std::uint64_t elements = source.count();
  const std::string shape = io::shape_text(source);
  const bool is_plain = shape == std::to_string(elements);
  std::vector<std::string> plan = {
      fmt::format("data: {}, {}{} elements of {}, {}", source.name(), is_plain ? "" : shape + ", ",
                  elements, word_of(source.type()), format_size(elements * size.of.stored))};
  if (!source.conversions().empty()) {
    plan.push_back("conversion: " + io::text_of(source.conversions()));
  }
  const auto& applied = source.origin().applied;
  if (!applied.empty()) plan.push_back("applied: " + join(applied, ", "));
  plan.push_back(shard_line);
  return plan;
}

}  // namespace

Prediction predict(const Options& options, const io::Source& source, Computation& computation,
                   measure::Machine& machine) {
  const std::uint64_t elements = source.count();
  const Shards shards{elements, computation.shard_unit(), machine.ranks()};
  const Range own = shards.of(0);
  const pipeline::ShardSize size = pipeline::size_of_shard(source, own, machine.backend());
  computation.plan(pipeline::batch_memory(options, planned_rank(options, machine), size,
                                          computation.device_state({})),
                   shards);
  const pipeline::Sizes pass{.mode = pipeline::mode(options), .of = size.of};
  const Path path = path_of(pass.mode, size.of, source, machine);
  const double bytes = static_cast<double>(computation.passes()) *
                       static_cast<double>(own.count * pass.bytes_of_pass());
  const KnownCeiling& bound = path.lowest();
  const double seconds = bytes / bound.rate;
  const pipeline::DeviceState state = computation.device_state(own);
  const pipeline::Sizes sizes =
      pipeline::choose_sizes(options, planned_rank(options, machine), size, state);
  std::vector<std::string> answer = memory_of(sizes, size, state, machine);
  answer.insert(
      answer.begin(),
      fmt::format("predicted: {} or more, bound by {}{}", format_duration(seconds), bound.name,
                  path.knows_source ? "" : "; reading the source may be slower"));
  std::vector<PredictedLimit> limits;
  for (const KnownCeiling& each : path.ceilings) limits.push_back({each.name, bytes / each.rate});
  std::vector<std::string> plan =
      plan_of(source, shard_line(computation.unit_word(), shards.unit, elements, size), size);
  std::ranges::move(computation.description(), std::back_inserter(plan));
  return {.answer = std::move(answer),
          .plan = std::move(plan),
          .warnings = {},
          .seconds = seconds,
          .is_minimum = true,
          .limits = std::move(limits),
          .device_memory = PredictedMemory{sizes.device_bytes(), sizes.device_limit}};
}

}  // namespace shardstream::workloads::stream
