#include "report/page/experiment_texts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <variant>

#include "core/text.hpp"

namespace shardstream::report::page {
namespace {

/// Removes the columns that say nothing in any row.
void remove_empty_columns(Grid& grid) {
  for (std::size_t column = grid.header.size(); column-- > 0;) {
    const bool is_empty = std::ranges::all_of(
        grid.rows, [&](const auto& row) { return row[column].empty() || row[column] == "-"; });
    if (!is_empty || grid.rows.empty()) continue;
    const auto at = static_cast<std::ptrdiff_t>(column);
    grid.header.erase(grid.header.begin() + at);
    for (auto& row : grid.rows) row.erase(row.begin() + at);
  }
}

}  // namespace

Grid numbers_of(const Table& table, bool of_all_ranks) {
  Grid grid;
  const Table shown = of_all_ranks ? table : of_first_rank(table);
  for (const Column& column : shown.columns()) grid.header.push_back(with_unit(shown, column.name));
  for (const Row& row : shown.rows()) {
    std::vector<std::string> cells;
    for (const Cell& cell : row.cells()) {
      const auto* const real = std::get_if<double>(&cell);
      cells.push_back(real != nullptr && std::isnan(*real) ? "-" : shardstream::to_text(cell));
    }
    grid.rows.push_back(std::move(cells));
  }
  remove_empty_columns(grid);
  return grid;
}

std::string basis_of(const BenchFile& bench, const ExperimentResult& experiment) {
  std::string text = fmt::format("Medians with 95 % intervals, {}{}", bench.device,
                                 bench.ranks > 1 ? ", rank 0" : "");
  if (std::isfinite(experiment.sm_clock)) text += fmt::format(", {:.0f} MHz", experiment.sm_clock);
  if (experiment.throttled > 0) text += ", throttled";
  return text + '.';
}

std::string words_on(const ExperimentResult& experiment) {
  std::string words;
  const auto add = [&](const std::string& sentence) {
    if (!sentence.empty()) words += (words.empty() ? "" : " ") + sentence;
  };
  if (experiment.better == "more") add("More is better.");
  if (experiment.better == "less") add("Less is better.");
  const std::string share = words_on_share(experiment);
  if (!share.empty()) add("In the numbers, " + share + '.');
  if (const std::string expected = words_on_expected(experiment); !expected.empty()) {
    add("In the table, " + expected);
  }
  for (const std::string& note : experiment.notes) add(note);
  add(words_on_precision(experiment));
  if (!experiment.reference.empty()) add("Published: " + experiment.reference);
  return words;
}

std::string to_html(const Lesson& lesson) {
  std::string content;
  for (const auto& [heading, words] : lesson.texts) {
    content += fmt::format("<p><b>{}:</b> {}</p>\n", escape(heading), with_code(words));
  }
  std::string list;
  for (const auto& [title, address] : lesson.read_on) {
    list += address == title
                ? fmt::format("<li><code>{}</code></li>\n", escape(title))
                : fmt::format("<li><a href=\"{}\">{}</a></li>\n", escape(address), escape(title));
  }
  content += fmt::format("<p><b>Read on:</b></p>\n<ul>\n{}</ul>\n", list);
  return fmt::format("<p class=\"read\"><b>Question:</b> {}</p>\n", with_code(lesson.question)) +
         folded("Cases, columns and expectation", content);
}

std::string with_unit(const Table& table, const std::string& name) {
  const auto column = std::ranges::find(table.columns(), name, &Column::name);
  return column->unit.empty() ? name : fmt::format("{} [{}]", name, column->unit);
}

}  // namespace shardstream::report::page
