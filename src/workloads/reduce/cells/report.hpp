// The report of statistics of cells: the values of each operation, which the ranks write together,
// their summary, and their verification.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/text.hpp"
#include "io/source/labels.hpp"
#include "workloads/reduce/cells/cell_reduction.hpp"
#include "workloads/reduce/cells/check.hpp"
#include "workloads/reduce/cells/groups.hpp"
#include "workloads/reduce/cells/labels.hpp"
#include "workloads/reduce/cells/shard_cells.hpp"
#include "workloads/reduce/cells/summary.hpp"
#include "workloads/reduce/cells/values.hpp"
#include "workloads/reduce/cells/weights.hpp"
#include "workloads/reduce/report.hpp"

namespace shardstream::workloads {

/// The results of a rank, and everything that describes them.
struct CellInputs {
  const stream::ShardContext& context;
  const io::Source& source;
  const CellPlan& plan;
  const CellRequest& request;
  const CellRules& rules;
  const cells::Choice& choice;
  const std::optional<CellGroups>& groups;
  const std::optional<CellWeights>& weights;
  const SampledBoxes& boxes;
  const std::vector<CellColumn>& columns;
  const std::string& missing_policy;
  /// The moments of one pass: those of this rank's outputs, and of the samples.
  struct Pass {
    cells::CellRange cells;
    std::vector<Range> outputs;  ///< of RankNodes::outputs()
    std::vector<std::uint64_t>*roots, *samples;
  };
  std::vector<Pass> passes;
};

template <class T, cells::Set S>
class CellReport {
 public:
  explicit CellReport(CellInputs inputs)
      : in_(std::move(inputs)),
        expected_(in_.plan.layout().groups, in_.groups ? 0 : in_.plan.values()) {
    if (!in_.groups) return;
    const std::vector<std::int32_t>& group_of = in_.groups->group_of;
    const std::uint64_t values_of_index = in_.plan.values() / group_of.size();
    for (const std::int32_t group : group_of) {
      if (group >= 0) expected_[static_cast<std::size_t>(group)] += values_of_index;
    }
  }

  /// The values of this rank's cells that do not count.
  std::uint64_t missing() const {
    std::uint64_t missing = 0;
    for_outputs([&](std::uint64_t group, std::uint64_t, const cells::Moments<T, S>& m) {
      missing += expected_[group] - static_cast<std::uint64_t>(m.count);
    });
    return missing;
  }

  /// Writes the values of this rank's outputs to the result, if it has arrays. Collective.
  void write() {
    summaries_ = summarize();
    if (in_.context.outputs.empty()) return;
    for (std::size_t i = 0; i < in_.columns.size(); ++i) {
      write(in_.columns[i], undefined_integer(i), in_.context.outputs[i]);
    }
  }

  /// Called after write(). Collective.
  void describe(const stream::Checks& checks, Outcome& outcome) {
    const CellCheck check = worst_check();
    const std::uint64_t missing = in_.context.runtime.session.sum(this->missing());
    const std::string fault = fault_of(checks, check, missing);
    if (!fault.empty() && outcome.verdict.empty()) outcome.verdict = fault;
    const bool is_whole = checks.repeatable && fault.empty();
    add_attributes(outcome);
    if (in_.weights) {
      outcome.metrics.push_back({"weights", in_.weights->name});
      workloads::describe(in_.weights->paired, "weights", outcome);
    }
    if (in_.groups) {
      outcome.metrics.push_back({"groups", static_cast<std::int64_t>(in_.groups->count())});
      workloads::describe(in_.groups->paired, "groups", outcome);
      if (!in_.groups->bounds.empty()) {
        const std::string dates = "middle of " + printable(in_.groups->bounds);
        outcome.metrics.push_back({"group_dates", dates});
        outcome.attributes.emplace_back("group_dates", dates);
      }
    }
    // Without a convention, NaNs count; and elements without a group may be missing, too.
    if (in_.choice.skip != cells::Skip::none && all_have_groups() && missing > checks.missing) {
      outcome.metrics.push_back({"nans", static_cast<std::int64_t>(missing - checks.missing)});
    }
    if (in_.request.makes_arrays) {
      add_table(check, is_whole, outcome);
      if (in_.context.runtime.session.rank() == 0) label(outcome);
    } else {
      add_rows(check, is_whole, outcome);
    }
    out_of_range().describe(is_whole && outcome.verdict.empty(), outcome);
  }

 private:
  bool all_have_groups() const { return !in_.groups || in_.groups->have_all(); }

  /// Calls use(group, cell, moments) for the outputs of this rank.
  template <class Use>
  void for_outputs(const Use& use) const {
    for (const CellInputs::Pass& pass : in_.passes) {
      const std::uint64_t count = pass.roots->size() / cells::words_of<T, S>;
      std::uint64_t* root = pass.roots->data();
      for (const Range part : pass.outputs) {
        for (std::uint64_t output = part.first; output < part.end(); ++output) {
          use(output / pass.cells.count, pass.cells.first + output % pass.cells.count,
              cells::Moments<T, S>::load(root++, count));
        }
      }
    }
  }

  CellValues<T, S> values(std::uint64_t group, const cells::Moments<T, S>& m) const {
    return {m, in_.rules, expected_[group]};
  }

  /// The integer that stands for an undefined value of a column.
  std::int64_t undefined_integer(std::size_t column) const {
    if (in_.columns[column].op.starts_with("arg")) return reduce::no_index;
    const std::array<bool, 2>& is_value = summaries_[column].is_value;
    return undefined_integers<T>()[is_value[0] && !is_value[1] ? 1 : 0];
  }

  void write(const CellColumn& column, std::int64_t undefined,
             const io::RangeWriter& writer) const {
    constexpr std::size_t piece = std::size_t{1} << 20;
    std::vector<std::uint64_t> words;
    std::uint64_t first = 0;
    const auto flush = [&] {
      if (!words.empty()) writer.write(first, std::as_bytes(std::span(words)));
      words.clear();
    };
    for_outputs([&](std::uint64_t group, std::uint64_t cell, const cells::Moments<T, S>& m) {
      const std::uint64_t output = group * in_.plan.cells() + cell;
      if (words.size() == piece || output != first + words.size()) flush();
      if (words.empty()) first = output;
      words.push_back(column.word(values(group, m)[column.op], undefined, in_.plan));
    });
    flush();
  }

  std::vector<CellSummary> summarize() const {
    std::vector<CellSummary> own(in_.request.ops.size());
    for_outputs([&](std::uint64_t group, std::uint64_t, const cells::Moments<T, S>& m) {
      const CellValues<T, S> of = values(group, m);
      for (std::size_t i = 0; i < own.size(); ++i) {
        own[i].add(of[in_.request.ops[i]], undefined_integers<T>());
      }
    });
    const auto all = in_.context.runtime.session.gather(own);
    for (CellSummary& each : own) each = {};
    for (std::size_t i = 0; i < all.size(); ++i) own[i % own.size()].add(all[i]);
    return own;
  }

  // Verification.

  CellCheck worst_check() {
    CellCheck worst;
    for (const CellInputs::Pass& pass : in_.passes) {
      for (std::size_t s = 0; s < in_.boxes.boxes.size(); ++s) worst.add(check_box(s, pass));
    }
    const auto all = in_.context.runtime.session.gather(std::vector{worst});
    for (const CellCheck& other : all) worst.add(other);
    return worst;
  }

  CellCheck check_box(std::size_t number, const CellInputs::Pass& pass) const {
    const CellPlan::Box& box = in_.boxes.boxes[number];
    const Range kept = in_.context.samples.ranges()[number];
    const auto* x = reinterpret_cast<const T*>(in_.context.samples.data(number)) +
                    (box.elements.first - kept.first);
    std::map<std::pair<std::uint64_t, std::uint64_t>, CellSample<T>> cells;  // by group, cell
    in_.plan.visit(box.elements, [&](const CellPlan::Element& element) {
      const T value = *x++;
      const std::int32_t group = in_.groups ? in_.groups->group_of[element.grouped] : 0;
      if (group < 0 || element.cell - pass.cells.first >= pass.cells.count) return;
      CellSample<T>& cell = cells[{static_cast<std::uint64_t>(group), element.cell}];
      const auto marker = static_cast<T>(in_.choice.marker);
      if (in_.choice.skip != cells::Skip::none &&
          cells::is_skipped(value, in_.choice.skip, marker)) {
        return;
      }
      cell.count += in_.choice.skip == cells::Skip::none ? 1 : cells::counted(value);
      cell.values.push_back(value);
      cell.numbers.push_back(static_cast<std::int64_t>(element.value));
      if (in_.weights) cell.weights.push_back(in_.weights->values[element.weight]);
    });
    CellCheck worst;
    const std::uint64_t groups = in_.plan.layout().groups;
    const std::uint64_t samples = in_.boxes.boxes.size() * groups * in_.boxes.max_cells;
    for (const auto& [place, sample] : cells) {
      const std::uint64_t at =
          (number * groups + place.first) * in_.boxes.max_cells + place.second - box.cells.first;
      worst.add(
          check_cell<T, S>(sample, cells::Moments<T, S>::load(pass.samples->data() + at, samples)));
    }
    return worst;
  }

  /// The reason why the result is wrong; empty if it is not. Collective.
  std::string fault_of(const stream::Checks& checks, const CellCheck& check,
                       std::uint64_t missing) const {
    std::uint64_t wrong = 0;
    const bool is_exact = in_.choice.skip == cells::Skip::none;
    for_outputs([&](std::uint64_t group, std::uint64_t, const cells::Moments<T, S>& m) {
      const auto count = static_cast<std::uint64_t>(m.count);
      wrong += count > expected_[group] || (is_exact && count != expected_[group]) ? 1 : 0;
    });
    const ranks::Session& session = in_.context.runtime.session;
    wrong = session.sum(wrong);
    if (wrong > 0) return fmt::format("{} cells have a wrong number of values", wrong);
    // NaNs that no attribute declares are additional; integers have none.
    const bool is_wrong =
        std::floating_point<T> ? missing < checks.missing : missing != checks.missing;
    if (all_have_groups() && in_.choice.skip == cells::Skip::missing && is_wrong) {
      return fmt::format("{} values are left out, but the conversion has found {} missing", missing,
                         checks.missing);
    }
    for (const auto& [name, deviation] : named(check)) {
      if (deviation.passes()) continue;
      return fmt::format(
          "the {} of a sampled cell is {:.3g} away from its reference, more than "
          "{:.3g}",
          name, deviation.error, deviation.bound);
    }
    return {};
  }
  static std::vector<std::pair<std::string, reduce::Deviation>> named(const CellCheck& check) {
    return {{"number of values or an extreme", check.exact},
            {"sum", check.sum},
            {"sum of squared deviations", check.m2},
            {"sum of cubed deviations", check.m3},
            {"sum of fourth powers", check.m4},
            {"sum of magnitudes", check.magnitude},
            {"sum of weights", check.weight}};
  }

  // The outcome.

  void add_attributes(Outcome& outcome) const {
    outcome.attributes.emplace_back("missing_policy", in_.missing_policy);
    outcome.attributes.emplace_back("cells", static_cast<std::int64_t>(in_.plan.cells()));
    outcome.attributes.emplace_back("lanes", static_cast<std::int64_t>(in_.plan.layout().lanes));
    outcome.attributes.emplace_back("unit_elements",
                                    static_cast<std::int64_t>(in_.plan.unit_elements()));
    outcome.attributes.emplace_back("cell_passes", static_cast<std::int64_t>(in_.passes.size()));
    outcome.attributes.emplace_back("ddof", static_cast<std::int64_t>(in_.rules.ddof));
    if (in_.groups) outcome.attributes.emplace_back("groups", in_.groups->by);
    if (in_.weights) outcome.attributes.emplace_back("weights", in_.weights->name);
  }

  /// The operations whose values are out of range in some cells.
  OutOfRange out_of_range() const {
    OutOfRange found;
    for (std::size_t i = 0; i < summaries_.size(); ++i) {
      const std::string& op = in_.request.ops[i];
      const bool is_integer = type_of<T>(op, in_.rules.is_weighted) != ElementType::f64;
      if (summaries_[i].overflows > 0) (is_integer ? found.wide : found.overflow).push_back(op);
      if (summaries_[i].underflows > 0) found.underflow.push_back(op);
    }
    return found;
  }
  static bool is_in_range(const CellSummary& all) { return all.overflows + all.underflows == 0; }

  void add_table(const CellCheck& check, bool is_whole, Outcome& outcome) const {
    Table table("cells", {{"op", ColumnType::text},
                          {"min", ColumnType::real},
                          {"max", ColumnType::real},
                          {"undefined", ColumnType::integer},
                          {"validated", ColumnType::integer},
                          {"max_error", ColumnType::real},
                          {"tolerance", ColumnType::real}});
    outcome.metrics.push_back({"cells", static_cast<std::int64_t>(in_.plan.outputs())});
    if (in_.passes.size() > 1) {
      outcome.metrics.push_back({"cell_passes", static_cast<std::int64_t>(in_.passes.size())});
    }
    for (std::size_t i = 0; i < in_.request.ops.size(); ++i) {
      const std::string& op = in_.request.ops[i];
      const CellSummary& all = summaries_[i];
      constexpr double nan = std::numeric_limits<double>::quiet_NaN();
      const double min = all.defined > 0 ? all.min.real : nan;
      const double max = all.defined > 0 ? all.max.real : nan;
      const reduce::Deviation deviation = deviation_of(op, check);
      table.add({op, min, max, static_cast<std::int64_t>(all.undefined),
                 std::int64_t{is_whole && is_in_range(all)}, deviation.error, deviation.bound});
      const std::string key = column_name(op);
      if (all.defined > 0) {
        outcome.metrics.push_back(
            {.key = key + "_smallest", .value = exact_text(op, all.min), .number = min});
        outcome.metrics.push_back(
            {.key = key + "_largest", .value = exact_text(op, all.max), .number = max});
      }
      if (all.undefined > 0) {
        outcome.metrics.push_back({key + "_undefined", static_cast<std::int64_t>(all.undefined)});
      }
    }
    outcome.results.push_back(std::move(table));
  }

  static reduce::Deviation deviation_of(std::string_view op, const CellCheck& check) {
    if (op == "sum" || op == "mean") return check.sum;
    if (op == "variance" || op == "stddev" || op == "l2") return check.m2;
    if (op == "skewness") return check.m3;
    if (op == "kurtosis") return check.m4;
    if (op == "l1") return check.magnitude;
    if (op == "effective-count") return check.weight;
    return check.exact;
  }

  /// Rows of the table `reduce` for a single cell. Its rank sends the values to all others.
  void add_rows(const CellCheck& check, bool is_whole, Outcome& outcome) const {
    Table& table = statistics_table(outcome);
    for (std::size_t i = 0; i < in_.request.ops.size(); ++i) {
      const std::string& op = in_.request.ops[i];
      const Single single = only_value(op);
      const bool is_index = op.starts_with("arg") && single.index != reduce::no_index;
      const reduce::Deviation deviation = deviation_of(op, check);
      const std::string position = is_index ? join(position_of(single.index), ",") : "";
      const std::string coordinates = is_index ? coordinates_of_value(single.index) : "";
      table.add({op, single.real, single.exact, is_index ? single.index : reduce::no_index,
                 position, coordinates, std::int64_t{is_whole && is_in_range(summaries_[i])},
                 deviation.error, deviation.bound});
      const std::string key = column_name(op);
      outcome.metrics.push_back({.key = key, .value = single.exact, .number = single.real});
      if (!position.empty()) outcome.metrics.push_back({key + "_position", position});
      if (!coordinates.empty()) outcome.metrics.push_back({key + "_coordinates", coordinates});
    }
  }
  /// The position in the data set of a value of the only cell.
  io::Extents position_of(std::int64_t number) const {
    const std::vector<std::uint64_t> indices =
        in_.plan.reduced_indices(static_cast<std::uint64_t>(number));
    io::Extents position;
    for (const io::SourceDimension& each : in_.source.dimensions()) {
      position.push_back(each.axis.first);
    }
    const std::vector<std::size_t>& reduced = in_.plan.dimensions().reduced;
    for (std::size_t i = 0; i < reduced.size(); ++i) {
      position[reduced[i]] = in_.source.dimensions()[reduced[i]].axis[indices[i]];
    }
    return position;
  }
  /// Only rank 0, whose results count, reads coordinates.
  std::string coordinates_of_value(std::int64_t number) const {
    if (in_.context.runtime.session.rank() != 0) return {};
    std::vector<std::string> warnings;
    const std::vector<io::Extents> positions{position_of(number)};
    const std::string text = io::coordinates_at(in_.source, positions, warnings).front();
    for (const std::string& warning : warnings) in_.context.runtime.log.warn(warning);
    return text;
  }

  struct Single {
    double real = 0;
    std::int64_t index = 0;
    std::string exact;
  };
  /// A value of the operation with all its digits.
  std::string exact_text(std::string_view op, const CellValue& value) const {
    if (value.real != value.real) return "nan";
    const ElementType type = type_of<T>(op, in_.rules.is_weighted);
    if (type == ElementType::f64) return fmt::format("{}", value.real);
    return type == ElementType::u64 ? fmt::format("{}", value.bits)
                                    : fmt::format("{}", static_cast<std::int64_t>(value.bits));
  }
  Single only_value(const std::string& op) const {
    Single single;
    for_outputs([&](std::uint64_t group, std::uint64_t, const cells::Moments<T, S>& m) {
      const CellValue value = values(group, m)[op];
      single.real = value.real;
      const bool is_undefined = value.real != value.real;
      single.index = is_undefined ? reduce::no_index : static_cast<std::int64_t>(value.bits);
      single.exact = exact_text(op, value);
    });
    const ranks::Session& session = in_.context.runtime.session;
    single.exact = session.broadcast(single.exact);
    single.real = session.gather(std::vector{single.real}).front();
    single.index = session.gather(std::vector{single.index}).front();
    return single;
  }

  void label(Outcome& outcome) const {
    std::vector<std::optional<std::int64_t>> undefined(in_.columns.size());
    std::vector<std::string> warnings;
    for (std::size_t i = 0; i < summaries_.size(); ++i) {
      const CellSummary& all = summaries_[i];
      if (all.undefined == 0 || in_.columns[i].type == ElementType::f64) continue;
      undefined[i] = undefined_integer(i);
      if (!all.is_value[0] || !all.is_value[1]) continue;
      warnings.push_back(
          fmt::format("{} has the value {}, which also stands for undefined ones: pass "
                      "--input.type f64",
                      in_.columns[i].name, *undefined[i]));
    }
    outcome.labelled = labelled_cells(in_.source, in_.plan, in_.groups, in_.weights, in_.columns,
                                      undefined, warnings);
    for (const std::string& warning : warnings) in_.context.runtime.log.warn(warning);
  }

  const CellInputs in_;
  std::vector<std::uint64_t> expected_;  // values of a cell, by group
  std::vector<CellSummary> summaries_;   // of each operation
};

}  // namespace shardstream::workloads
