#include "workloads/workload.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/error.hpp"
#include "core/text.hpp"
#include "core/units.hpp"

namespace shardstream::workloads {

void Outcome::add_validated() {
  for (Table& table : results) {
    if (std::ranges::find(table.columns(), "validated", &Column::name) != table.columns().end()) {
      continue;
    }
    std::vector<Column> columns = table.columns();
    columns.push_back({"validated", ColumnType::integer});
    Table with_column(table.name(), std::move(columns));
    for (const Row& row : table.rows()) {
      std::vector<Cell> cells = row.cells();
      cells.emplace_back(std::int64_t{verified == Verification::passed});
      with_column.add(std::move(cells));
    }
    table = std::move(with_column);
  }
}

void Outcome::invalidate(const std::string& why) {
  verified = Verification::failed;
  verdict = why;
  add_validated();
  for (Table& table : results) {
    for (std::size_t row = 0; row < table.rows().size(); ++row) {
      table.set(row, "validated", std::int64_t{0});
    }
  }
}

bool Workload::takes(std::string_view key) const {
  return std::ranges::find(honours, key) != honours.end() ||
         std::ranges::any_of(options, [&](std::span<const OptionRow> rows) {
           return std::ranges::find(rows, key, &OptionRow::key) != rows.end();
         });
}

std::string words_of(const FasterChoice& choice) {
  return fmt::format("--{} {} would take about {}", choice.option, choice.value,
                     format_duration(choice.seconds));
}

void describe_join(const io::Origin& origin, const std::string& group, Outcome& outcome) {
  const auto& joined = origin.joined;
  if (joined.empty()) return;
  outcome.input.push_back({group, "file_count", static_cast<std::int64_t>(joined.size())});
  outcome.input.push_back({group, "first_file", joined.front().file.string()});
  outcome.input.push_back({group, "last_file", joined.back().file.string()});
}

void describe_dimensions(const io::Source& source, const std::string& group, Outcome& outcome) {
  outcome.input.push_back({group, "dimensions", shape_text(source)});
  const std::string selection = selection_text(source);
  if (!selection.empty()) outcome.input.push_back({group, "selection", selection});
}

void describe(const io::PairedDimensions& paired, const std::string& what, Outcome& outcome) {
  const auto add = [&](const std::string& key, const std::vector<std::string>& dimensions) {
    if (dimensions.empty()) return;
    outcome.metrics.push_back({key, join(dimensions, ",")});
    outcome.attributes.emplace_back(key, join(dimensions, ","));
  };
  add(what + "_by_position", paired.by_position);
  add(what + "_reordered", paired.reordered);
}

namespace {

/// `base` times `factor`, at least 1. `key` names the option in the error.
std::uint64_t multiplied(const Options& options, std::string_view key, std::uint64_t base,
                         double factor) {
  const double count = std::max(1.0, std::round(static_cast<double>(base) * factor));
  if (count < 0x1p62) return static_cast<std::uint64_t>(count);
  throw UsageError(
      fmt::format("{} would be {:.3g} ({} times {}): choose fewer ranks or a smaller size", key,
                  count, factor, options.text(key)));
}

}  // namespace

Scaled scaled_count(const Options& options, std::string_view key, double factor) {
  const std::uint64_t base = options.count(key), count = multiplied(options, key, base, factor);
  return {.options = {{std::string(key), std::to_string(count)}},
          .factor = static_cast<double>(count) / static_cast<double>(base)};
}

Scaled scaled_shape(const Options& options, std::size_t dimension, double factor) {
  constexpr std::string_view key = "input.shape";
  std::vector<std::uint64_t> shape;
  for (const std::string_view extent : split(options.text(key), 'x')) {
    shape.push_back(parse_count(extent));
  }
  if (dimension >= shape.size()) {
    throw UsageError(
        fmt::format("input.shape is {}, which has no dimension {}: name one from 0 to {}",
                    options.text(key), dimension, shape.size() - 1));
  }
  const std::uint64_t base = shape[dimension];
  shape[dimension] = multiplied(options, key, base, factor);
  return {.options = {{std::string(key), fmt::format("{}", fmt::join(shape, "x"))}},
          .factor = static_cast<double>(shape[dimension]) / static_cast<double>(base)};
}

Scaled scaled_rows(const Options& options, double factor) {
  if (options.is_auto("input.rows")) {
    throw UsageError(
        fmt::format("input.rows is auto (all rows of {}), which cannot grow in a weak scaling "
                    "study: pass --input.rows with the number of rows at the smallest size",
                    options.text("input.data")));
  }
  return scaled_count(options, "input.rows", factor);
}

}  // namespace shardstream::workloads
