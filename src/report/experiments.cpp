#include "report/experiments.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <set>
#include <utility>
#include <variant>

#include "core/text.hpp"
#include "result/columns.hpp"

namespace shardstream::report {
namespace {

/// The attributes of an experiment that are texts, by name.
std::vector<std::pair<const char*, std::string ExperimentResult::*>> texts() {
  return {{"summary", &ExperimentResult::summary},
          {"reference", &ExperimentResult::reference},
          {"share", &ExperimentResult::share},
          {"look", &ExperimentResult::look},
          {"x", &ExperimentResult::x},
          {"y", &ExperimentResult::y},
          {"series", &ExperimentResult::series},
          {"panel", &ExperimentResult::panel},
          {"log", &ExperimentResult::log},
          {"better", &ExperimentResult::better}};
}

std::string group_of(const std::string& experiment) {
  return "/bench/" + experiment;
}

/// The attribute that names the reference lines, with a blank between two names.
constexpr auto reference_lines = "beside";

/// The pieces of `text` that are not empty.
std::vector<std::string> pieces_of(const std::string& text, char separator) {
  std::vector<std::string> pieces;
  for (const std::string_view piece : split(text, separator)) {
    if (!piece.empty()) pieces.emplace_back(piece);
  }
  return pieces;
}

std::size_t ranks_of(const Table& table) {
  std::set<std::int64_t> ranks;
  for (const Row& row : table.rows()) ranks.insert(row.get<std::int64_t>("rank"));
  return std::max<std::size_t>(1, ranks.size());
}

/// A column that the reader of an experiment's table needs; without a type, any type will do.
struct NeededColumn {
  std::string name;
  std::optional<ColumnType> type = {};
};

std::vector<NeededColumn> needed_columns(const ExperimentResult& experiment) {
  std::vector<NeededColumn> columns = {{"rank", ColumnType::integer},
                                       {experiment.y, ColumnType::real},
                                       {"ci_lo", ColumnType::real},
                                       {"ci_hi", ColumnType::real},
                                       {"share", ColumnType::real},
                                       {"remark", ColumnType::text},
                                       {experiment.x}};
  if (!experiment.series.empty() || experiment.look == "matrix") {
    columns.push_back({experiment.series});
  }
  if (!experiment.panel.empty()) columns.push_back({experiment.panel});
  for (const std::string& name : experiment.reference_lines) {
    columns.push_back({name, ColumnType::real});
  }
  return columns;
}

/// Throws UsageError unless the table has the columns that the figure names, and begins with the
/// ranks. All readers of the table rely on that.
void expect_columns(const ExperimentResult& experiment, const std::filesystem::path& path) {
  const auto& columns = experiment.table.columns();
  const auto fail = [&](const std::string& fault) {
    throw UsageError(fmt::format("'{}' is damaged: the table {}/rows {}: name another result",
                                 path.string(), excerpt(group_of(experiment.name)), fault));
  };
  for (const auto& [name, type] : needed_columns(experiment)) {
    const auto found = std::ranges::find(columns, name, &Column::name);
    if (found == columns.end()) fail(fmt::format("lacks the column {}", excerpt(name)));
    if (type && found->type != *type) {
      fail(fmt::format("has a column {} of another type", excerpt(name)));
    }
  }
  if (columns.front().name != "rank") fail("does not begin with the column 'rank'");
}

}  // namespace

void write_experiments(io::ResultFile& file, const std::vector<ExperimentResult>& experiments) {
  file.attribute("/", "command", "bench");
  for (const ExperimentResult& each : experiments) {
    if (!each.is_measured()) continue;
    const std::string group = group_of(each.name);
    file.table(group, each.table);
    for (const auto& [name, member] : texts()) file.attribute(group, name, each.*member);
    file.attribute(group, reference_lines, join(each.reference_lines, " "));
    std::string notes;
    for (const std::string& note : each.notes) notes += note + '\n';
    file.attribute(group, "notes", notes);
  }
  result::write<result::Experiment>(file, experiments);
}

bool is_bench_file(const io::ResultReader& file) {
  return file.text("/", "command") == "bench";
}

BenchFile read_bench_file(const io::ResultReader& file, const std::filesystem::path& path) {
  BenchFile bench;
  bench.path = path;
  bench.command = file.text("/", "argv");
  bench.created = file.text("/", "created_utc");
  const auto ranks = result::read<result::Rank>(file);
  bench.ranks = ranks.size();
  if (bench.ranks > 0) bench.device = ranks.front().device;
  for (result::Experiment& experiment : result::read<result::Experiment>(file)) {
    ExperimentResult each;
    static_cast<result::Experiment&>(each) = std::move(experiment);
    if (each.is_measured()) {
      const std::string group = group_of(each.name);
      for (const auto& [name, member] : texts()) each.*member = file.text(group, name);
      each.reference_lines = pieces_of(file.text(group, reference_lines), ' ');
      each.notes = pieces_of(file.text(group, "notes"), '\n');
      each.table = file.table(group + "/rows");
      expect_columns(each, path);
    }
    bench.experiments.push_back(std::move(each));
  }
  return bench;
}

double rounded(double value) {
  return std::strtod(fmt::format("{:.4g}", value).c_str(), nullptr);
}

Table of_first_rank(const Table& all) {
  Table table("rows", {all.columns().begin() + 1, all.columns().end()});
  for (const Row& row : all.rows()) {
    if (row.get<std::int64_t>("rank") != 0) continue;
    std::vector<Cell> cells(row.cells().begin() + 1, row.cells().end());
    for (Cell& cell : cells) {
      if (auto* const real = std::get_if<double>(&cell)) *real = rounded(*real);
    }
    table.add(std::move(cells));
  }
  return table;
}

std::string count_of_states(const std::vector<ExperimentResult>& experiments) {
  std::vector<std::pair<std::string, std::size_t>> states = {{"measured", 0}, {"not available", 0},
                                                             {"rejected", 0}, {"failed", 0},
                                                             {"wrong", 0},    {"not run", 0}};
  for (const ExperimentResult& each : experiments) {
    auto state = std::ranges::find(states, each.state, &decltype(states)::value_type::first);
    if (state == states.end()) state = states.insert(states.end(), {each.state, 0});
    ++state->second;
  }
  std::erase_if(states, [](const auto& state) { return state.second == 0; });
  return fmt::format("{}: {}", counted(experiments.size(), "experiment"),
                     join(states, ", ", [](const auto& state) {
                       return fmt::format("{} {}", state.second, state.first);
                     }));
}

std::string words_on_precision(const ExperimentResult& experiment) {
  if (experiment.unconverged == 0) return "";
  const std::size_t ranks = ranks_of(experiment.table);
  std::string timings = counted(experiment.unconverged, "timing");
  if (ranks > 1) {
    timings +=
        fmt::format(" on {} ranks, {:.3g} on each on average,", ranks,
                    static_cast<double>(experiment.unconverged) / static_cast<double>(ranks));
  }
  return timings + " did not reach measure.precision.";
}

std::string words_on_expected(const ExperimentResult& experiment) {
  const auto& columns = experiment.table.columns();
  const auto expected = std::ranges::find(columns, "expected", &Column::name);
  if (expected == columns.end() || expected->type != ColumnType::real) return {};
  constexpr double near = 0.1;
  std::size_t known = 0, met = 0;
  for (const Row& row : experiment.table.rows()) {
    const double ratio = row.get<double>(experiment.y) / row.get<double>("expected");
    known += std::isfinite(ratio) ? 1 : 0;
    met += std::abs(ratio - 1) <= near ? 1 : 0;
  }
  if (known == 0) return {};
  return fmt::format("expected: {} of {} values are within {:.0f} %.", met, known, 100 * near);
}

std::string words_on_share(const ExperimentResult& experiment) {
  const auto has_share = [](const Row& row) { return std::isfinite(row.get<double>("share")); };
  if (experiment.share.empty() || !std::ranges::any_of(experiment.table.rows(), has_share))
    return {};
  return fmt::format("share: {}", experiment.share);
}

namespace {

/// Without the work of kernels, which only the figure of the roofs needs, and without columns that
/// have no value.
Table for_terminal(const Table& table) {
  static constexpr std::array work = {"operations", "bytes",        "duration",    "arithmetic",
                                      "distinct",   "shared_bytes", "instructions"};
  const auto is_of_work = [](const Column& column) {
    return std::ranges::find(work, column.name) != work.end();
  };
  const bool has_kernels = std::ranges::count_if(table.columns(), is_of_work) == std::ssize(work);
  return without_empty_columns(with_columns(
      table, [&](const Column& column) { return !has_kernels || !is_of_work(column); }));
}

}  // namespace

std::string to_text(const ExperimentResult& experiment) {
  const std::string name = printable(experiment.name);
  if (!experiment.is_measured()) {
    // A message may have further lines, such as those of a compiler, which stay as they are.
    const std::size_t end = std::min(experiment.message.find('\n'), experiment.message.size());
    return wrapped("",
                   fmt::format("{}: {}: {}", name, printable(experiment.state),
                               printable(experiment.message.substr(0, end))),
                   0) +
           (end == experiment.message.size()
                ? ""
                : printable_lines(experiment.message.substr(end + 1)) + '\n');
  }
  std::string text =
      fmt::format("{}: {}\n{}", name, printable(experiment.summary),
                  shardstream::to_text(for_terminal(of_first_rank(experiment.table))));
  const std::string share = words_on_share(experiment);
  if (!share.empty()) text += wrapped("", printable(share), 0);
  const std::string expected = words_on_expected(experiment);
  if (!expected.empty()) text += expected + '\n';
  for (const std::string& note : experiment.notes) text += wrapped("", printable(note), 0);
  if (!experiment.reference.empty()) {
    text += wrapped("", fmt::format("Published: {}", printable(experiment.reference)), 0);
  }
  const std::string precision = words_on_precision(experiment);
  if (!precision.empty()) text += precision + '\n';
  if (experiment.throttled > 0) {
    text += fmt::format("The GPU was throttled on {}.\n", counted(experiment.throttled, "rank"));
  }
  return text;
}

std::string to_text(const BenchFile& bench) {
  std::string text = fmt::format("{}: {}, {}{}\n{}.\n", printable(bench.path.string()),
                                 counted(bench.ranks, "rank"), printable(bench.device),
                                 bench.ranks > 1 ? "; the rows of rank 0" : "",
                                 printable(count_of_states(bench.experiments)));
  for (const ExperimentResult& each : bench.experiments) text += '\n' + to_text(each);
  if (bench.roofline) {
    text +=
        "\nKernels and runs below the roofs:\n" + shardstream::to_text(to_table(*bench.roofline));
    for (const std::string& note : bench.roofline->notes) text += wrapped("", printable(note), 0);
  }
  return text;
}

}  // namespace shardstream::report
