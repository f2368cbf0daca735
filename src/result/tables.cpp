#include "result/tables.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/text.hpp"
#include "result/columns.hpp"

namespace shardstream::result {

std::vector<Field<InputFile>> InputFile::columns() {
  using R = InputFile;
  return {{"option", &R::option},
          {"path", &R::path},
          {"dataset", &R::dataset},
          {"size", &R::size, "B"},
          {"modified_ns", &R::modified_ns, "ns"}};
}

std::vector<Field<Rank>> Rank::columns() {
  using R = Rank;
  return {{"rank", &R::rank},
          {"host", &R::host},
          {"local_rank", &R::local_rank},
          {"pid", &R::pid},
          {"cpus", &R::cpus},
          {"cpu_nodes", &R::cpu_nodes},
          {"threads", &R::threads},
          {"backend", &R::backend},
          {"device", &R::device},
          {"gpu_uuid", &R::gpu_uuid},
          {"gpu_pci", &R::gpu_pci},
          {"gpu_node", &R::gpu_node},
          {"pinned_nodes", &R::pinned_nodes},
          {"numa_nodes", &R::numa_nodes, "", Presence::newer},
          {"memory_node", &R::memory_node, "", Presence::newer},
          {"numa_balancing", &R::numa_balancing, "", Presence::newer}};
}

std::vector<Field<GpuPlace>> GpuPlace::columns() {
  using R = GpuPlace;
  return {{"gpu", &R::gpu},
          {"host", &R::host},
          {"pci", &R::pci},
          {"uuid", &R::uuid},
          {"rank", &R::rank},
          {"visible", &R::visible},
          {"numa_node", &R::numa_node}};
}

std::vector<Field<GpuHardware>> GpuHardware::columns() {
  using R = GpuHardware;
  return {{"name", &R::name},
          {"compute_capability", &R::compute_capability},
          {"multiprocessors", &R::multiprocessors},
          {"memory", &R::memory, "B"},
          {"sm_clock_max", &R::sm_clock_max, "MHz"},
          {"memory_clock_max", &R::memory_clock_max, "MHz"},
          {"power_limit", &R::power_limit, "W"},
          {"ecc", &R::ecc},
          {"pcie_generation", &R::pcie_generation},
          {"pcie_width", &R::pcie_width},
          {"pcie_generation_max", &R::pcie_generation_max},
          {"pcie_width_max", &R::pcie_width_max},
          {"pcie_rate_max", &R::pcie_rate_max, "GB/s"},
          {"nvlinks", &R::nvlinks}};
}

std::vector<Field<GpuState>> GpuState::columns() {
  using R = GpuState;
  constexpr auto newer = Presence::newer;
  return {{"compute_mode", &R::compute_mode, "", newer},
          {"persistence_mode", &R::persistence_mode, "", newer},
          {"async_engines", &R::async_engines, "", newer},
          {"concurrent_kernels", &R::concurrent_kernels, "", newer},
          {"maps_host_memory", &R::maps_host_memory, "", newer},
          {"performance_state", &R::performance_state, "", newer},
          {"utilization", &R::utilization, "%", newer},
          {"other_processes", &R::other_processes, "", newer}};
}

std::vector<Field<Gpu>> Gpu::columns() {
  return joined<Gpu>(GpuPlace::columns(), GpuHardware::columns(), GpuState::columns());
}

std::vector<Field<Peer>> Peer::columns() {
  using R = Peer;
  return {{"gpu", &R::gpu},
          {"peer", &R::peer},
          {"host", &R::host},
          {"access", &R::access},
          {"performance_rank", &R::performance_rank},
          {"link", &R::link}};
}

std::vector<Field<Phase>> Phase::columns() {
  using R = Phase;
  return {{"track", &R::track},
          {"phase", &R::phase},
          {"host_seconds", &R::host_seconds, "s"},
          {"gpu_seconds", &R::gpu_seconds, "s"},
          {"calls", &R::calls},
          {"bytes", &R::bytes, "B"},
          {"kind", &R::kind},
          {"timed_seconds", &R::timed_seconds, "s", Presence::newer}};
}

std::vector<Field<RankNumber>> RankNumber::columns() {
  return {{"rank", &RankNumber::rank}};
}

std::vector<Field<RankPhase>> RankPhase::columns() {
  return joined<RankPhase>(RankNumber::columns(), Phase::columns());
}

std::vector<Field<Repetition>> Repetition::columns() {
  using R = Repetition;
  return {{"rep", &R::rep},           {"wall", &R::wall, "s"},   {"skew", &R::skew, "s"},
          {"elements", &R::elements}, {"bytes", &R::bytes, "B"}, {"throttled", &R::throttled},
          {"work", &R::work}};
}

std::vector<Field<Step>> Step::columns() {
  using R = Step;
  return {{"step", &R::step},
          {"first", &R::first, "s"},
          {"last", &R::last, "s"},
          {"utc", &R::utc, "s"}};
}

std::vector<Field<Span>> Span::columns() {
  using R = Span;
  return {{"rank", &R::rank},
          {"track", &R::track},
          {"phase", &R::phase},
          {"batch", &R::batch},
          {"start_ns", &R::start_ns, "ns"},
          {"dur_ns", &R::dur_ns, "ns"}};
}

std::vector<Field<GpuSample>> GpuSample::columns() {
  using R = GpuSample;
  return {{"rank", &R::rank},
          {"seconds", &R::seconds, "s"},
          {"power", &R::power, "W"},
          {"sm_clock", &R::sm_clock, "MHz"},
          {"memory_clock", &R::memory_clock, "MHz"},
          {"temperature", &R::temperature, "degC"},
          {"throttled", &R::throttled},
          {"clock_reasons", &R::clock_reasons},
          {"took", &R::took, "s"}};
}

std::vector<Field<MetricSummary>> MetricSummary::columns() {
  using R = MetricSummary;
  return {{"metric", &R::metric},
          {"n", &R::n},
          {"median", &R::median},
          {"ci_lo", &R::ci_lo},
          {"ci_hi", &R::ci_hi},
          {"min", &R::min},
          {"q1", &R::q1},
          {"q3", &R::q3},
          {"max", &R::max},
          {"unit", &R::unit},
          {"sampling", &R::sampling},
          {"autocorrelation", &R::autocorrelation}};
}

std::vector<Field<PrintedMetric>> PrintedMetric::columns() {
  using R = PrintedMetric;
  return {{"metric", &R::metric}, {"value", &R::value}, {"number", &R::number}, {"unit", &R::unit}};
}

std::vector<Field<Ceiling>> Ceiling::columns() {
  using R = Ceiling;
  return {{"ceiling", &R::name},        {"per_rank_min", &R::per_rank},
          {"aggregate", &R::aggregate}, {"unit", &R::unit},
          {"on_path", &R::on_path},     {"conditions", &R::conditions, "", Presence::newer}};
}

std::vector<Field<Experiment>> Experiment::columns() {
  using R = Experiment;
  return {{"experiment", &R::name},
          {"group", &R::group},
          {"state", &R::state},
          {"message", &R::message},
          {"unconverged", &R::unconverged},
          {"sm_clock", &R::sm_clock, "MHz"},
          {"power", &R::power, "W"},
          {"throttled", &R::throttled}};
}

std::map<std::string, std::uint64_t> ranks_by_host(const std::vector<Rank>& ranks) {
  std::map<std::string, std::uint64_t> counts;
  for (const Rank& rank : ranks) ++counts[rank.host];
  return counts;
}

Table repetitions_table(const std::vector<Repetition>& repetitions, const std::string& unit) {
  std::vector<Column> columns = columns_of<Repetition>();
  columns.back().unit = unit;  // `work` is the last column
  return table_of<Repetition>(repetitions, std::move(columns));
}

Table ceilings_table(const std::vector<Ceiling>& ceilings) {
  std::map<std::string, std::int64_t> none;  // the value of a ceiling without the number
  for (const Ceiling& ceiling : ceilings) {
    for (const auto& [name, size] : ceiling.sizes) none[name] = 0;
  }
  std::vector<Column> columns = columns_of<Ceiling>();
  for (const auto& [name, size] : none) columns.push_back({name, ColumnType::integer});
  Table table{std::string(name_of(Ceiling::table)), std::move(columns)};
  for (const Ceiling& ceiling : ceilings) {
    std::vector<Cell> cells = cells_of(ceiling);
    auto sizes = ceiling.sizes;
    sizes.insert(none.begin(), none.end());
    for (const auto& [name, size] : sizes) cells.emplace_back(size);
    table.add(std::move(cells));
  }
  return table;
}

std::vector<Ceiling> read_ceilings(const io::ResultReader& file) {
  std::vector<Ceiling> ceilings = read<Ceiling>(file);
  const Table table = file.table(std::string(Ceiling::table));
  const std::vector<Column> known = columns_of<Ceiling>();
  for (const Column& column : table.columns()) {
    const bool is_known = std::ranges::find(known, column.name, &Column::name) != known.end();
    if (column.type != ColumnType::integer || is_known) continue;
    for (std::size_t i = 0; i < ceilings.size(); ++i) {
      const auto size = table.rows()[i].get<std::int64_t>(column.name);
      if (size > 0) ceilings[i].sizes.emplace(column.name, size);
    }
  }
  return ceilings;
}

namespace {

template <class Record>
std::string line_of() {
  constexpr const char* types[] = {"integer", "real", "text"};
  const auto text_of = [&](const Field<Record>& field) {
    const Column column = field.column();
    return fmt::format("{} {}{}{}", column.name, types[static_cast<std::size_t>(column.type)],
                       column.unit.empty() ? "" : fmt::format(" [{}]", column.unit),
                       field.presence == Presence::newer ? " *" : "");
  };
  return fmt::format("| `{}` | {} |", Record::table, join(fields_of<Record>(), ", ", text_of));
}

template <class... Records>
std::vector<std::string> lines_of() {
  return {line_of<Records>()...};
}

}  // namespace

std::vector<std::string> lines_of_tables() {
  return lines_of<InputFile, Rank, Gpu, Peer, Phase, RankPhase, Repetition, Step, Span, GpuSample,
                  Ceiling, PrintedMetric, MetricSummary, Experiment>();
}

}  // namespace shardstream::result
