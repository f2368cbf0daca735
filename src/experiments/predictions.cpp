#include "experiments/predictions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <ranges>
#include <string>
#include <utility>

#include "core/error.hpp"
#include "core/log.hpp"
#include "core/text.hpp"
#include "core/units.hpp"
#include "experiments/expected.hpp"
#include "io/hdf5/result_file.hpp"
#include "result/tables.hpp"

namespace shardstream::experiments {
namespace {

using RowOfExercise = UpTo<Condition, 3>;

std::size_t values_of(const Experiment& experiment) {
  const auto& rows = experiment.exercise.rows;
  return static_cast<std::size_t>(rows.end() - rows.begin());
}

/// "stride 2", "way up, items 8".
std::string label_of(const RowOfExercise& row) {
  std::string label;
  for (const Condition& each : row) {
    label += fmt::format("{}{} {}", label.empty() ? "" : ", ", each.column, each.text);
  }
  return label;
}

/// The exercise and its rows, for the end of a message.
std::string advice_for(const Experiment& experiment) {
  std::string labels;
  for (const RowOfExercise& row : experiment.exercise.rows) {
    labels += (labels.empty() ? "" : "; ") + label_of(row);
  }
  return fmt::format("{} Give a number for each of: {}", experiment.exercise.task, labels);
}

void expect_exercise(const Experiment& experiment) {
  if (values_of(experiment) > 0) return;
  throw UsageError(fmt::format(
      "--predict: {} has no exercise: leave out --predict, or choose another experiment",
      experiment.name));
}

/// Appends the numbers of "120,60" to `numbers`.
void append_numbers(std::vector<double>& numbers, const Experiment& experiment,
                    std::string_view text) {
  std::string separated(text);
  std::ranges::replace_if(
      separated, [](char c) { return c == ' ' || c == '\t'; }, ',');
  for (const std::string_view part : split(separated, ',')) {
    if (part.empty()) continue;
    double number = std::numeric_limits<double>::quiet_NaN();
    try {
      number = parse_number(part);
    } catch (const UsageError&) {  // named below
    }
    if (!std::isfinite(number)) {
      throw UsageError(
          fmt::format("--predict: {} is no number. {}", excerpt(part), advice_for(experiment)));
    }
    numbers.push_back(number);
  }
}

void expect_count(const Experiment& experiment, std::size_t count) {
  if (count == values_of(experiment)) return;
  throw UsageError(fmt::format("--predict: {} instead of {}. {}", counted(count, "number"),
                               values_of(experiment), advice_for(experiment)));
}

/// A cell of the first row that has the cells `wanted`; NaN if there is no such row or column.
double find_cell(const Table& table, const RowOfExercise& wanted, std::string_view column) {
  const bool exists =
      std::ranges::find(table.columns(), column, &Column::name) != table.columns().end();
  for (const Row& row : table.rows()) {
    const auto has = [&](const Condition& each) { return holds(row, table, each); };
    if (exists && std::ranges::all_of(wanted, has)) return row.get<double>(column);
  }
  return std::numeric_limits<double>::quiet_NaN();
}

std::string comparison_of(const Experiment& experiment, const report::ExperimentResult& result,
                          const std::vector<double>& predictions) {
  const auto& columns = result.table.columns();
  const auto measured = std::ranges::find(columns, result.y, &Column::name);
  expect(measured != columns.end(), "a measured table has the column of its figure");
  Table table("predictions", {{"value", ColumnType::text},
                              {"predicted", ColumnType::real, measured->unit},
                              {"expected", ColumnType::real, measured->unit},
                              {"measured", ColumnType::real, measured->unit},
                              {"ratio", ColumnType::real}});
  const Table rows = report::of_first_rank(result.table);
  for (std::size_t i = 0; i < predictions.size(); ++i) {
    const RowOfExercise& wanted = experiment.exercise.rows.begin()[i];
    const double value = find_cell(rows, wanted, result.y);
    table.add({label_of(wanted), predictions[i], find_cell(rows, wanted, "expected"), value,
               std::round(1000 * predictions[i] / value) / 1000});
  }
  return fmt::format("{}\n{}ratio: the predicted value over the measured one\n",
                     experiment.exercise.task, to_text(table));
}

}  // namespace

std::vector<double> predictions_of(const Experiment& experiment, std::string_view numbers) {
  expect_exercise(experiment);
  std::vector<double> predictions;
  append_numbers(predictions, experiment, numbers);
  expect_count(experiment, predictions.size());
  return predictions;
}

std::vector<double> ask_for_predictions(const Experiment& experiment, std::string_view basis) {
  expect_exercise(experiment);
  std::string before =
      fmt::format("{}\n{}\n", experiment.explanation.question, experiment.exercise.task);
  if (!basis.empty()) before += fmt::format("Measured on {}.\n", printable(basis));
  std::vector<double> predictions;
  while (predictions.size() < values_of(experiment)) {
    const auto& row = experiment.exercise.rows.begin()[predictions.size()];
    const auto line = ask(fmt::format("{}{}: ", std::exchange(before, {}), label_of(row)));
    if (!line) break;
    append_numbers(predictions, experiment, *line);
  }
  expect_count(experiment, predictions.size());
  return predictions;
}

std::string text_of(const report::ExperimentResult& result, const Experiment& experiment,
                    const std::vector<double>& predictions) {
  std::string text = report::to_text(result);
  if (predictions.empty()) return text;
  if (result.is_measured()) return text + '\n' + comparison_of(experiment, result, predictions);
  return text + "Add --from FILE.h5 to compare the predictions with the results of a file.\n";
}

FileResult result_in(const std::filesystem::path& path, const Experiment& experiment) {
  const io::ResultReader file(path);
  if (!report::is_bench_file(file)) {
    throw UsageError(
        fmt::format("--from: '{}' is no file of bench: name one, such as "
                    "inputs/examples/bench.h5",
                    path.string()));
  }
  report::BenchFile bench = report::read_bench_file(file, path);
  const auto found =
      std::ranges::find(bench.experiments, experiment.name, &report::ExperimentResult::name);
  if (found == bench.experiments.end()) {
    throw UsageError(fmt::format("--from: '{}' does not have the experiment {}: name another file",
                                 path.string(), experiment.name));
  }
  if (!found->is_measured()) return {std::move(*found), {}};
  std::map<std::string, double> ceilings;
  std::string basis = bench.device;
  if (std::isfinite(found->sm_clock)) basis += fmt::format(", {:.0f} MHz", found->sm_clock);
  for (const result::Ceiling& each : result::read_ceilings(file)) {
    ceilings[each.name] = each.per_rank;
    if (experiment.needs.has_ceiling(each.name)) {
      basis += fmt::format(", {} {:.4g} {}", each.name, each.per_rank, each.unit);
    }
  }
  Figure figure = experiment.figure;
  figure.y = found->y;
  found->table = with_expected(std::move(found->table), experiment, figure, ceilings);
  return {std::move(*found), std::move(basis)};
}

}  // namespace shardstream::experiments
