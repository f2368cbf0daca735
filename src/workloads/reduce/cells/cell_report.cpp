#include "workloads/reduce/cells/cell_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <mutex>
#include <span>
#include <utility>

#include "core/parallel.hpp"
#include "core/text.hpp"
#include "io/source/dimension_labels.hpp"
#include "workloads/reduce/reduce_report.hpp"

namespace shardstream::workloads {
namespace {

bool is_in_range(const CellSummary& all) {
  return all.overflows + all.underflows == 0;
}

std::vector<std::pair<std::string, Deviation>> named(const CellCheck& check) {
  return {{"number of values or an extreme", check.exact},
          {"sum", check.sum},
          {"sum of squared deviations", check.m2},
          {"sum of cubed deviations", check.m3},
          {"sum of fourth powers", check.m4},
          {"sum of magnitudes", check.magnitude},
          {"sum of weights", check.weight}};
}

}  // namespace

CellReport::CellReport(CellInputs inputs)
    : in_(std::move(inputs)),
      load_(moments_loader(in_.rules.type)),
      expected_(in_.plan.layout().groups, in_.groups ? 0 : in_.plan.values()) {
  for (const std::string& op : in_.request.ops) statistics_.push_back(&statistic(op));
  if (!in_.groups) return;
  const std::vector<std::int32_t>& group_of = in_.groups->group_of;
  const std::uint64_t values_of_index = in_.plan.values() / group_of.size();
  for (const std::int32_t group : group_of) {
    if (group >= 0) expected_[static_cast<std::size_t>(group)] += values_of_index;
  }
}

std::uint64_t CellReport::missing() const {
  std::uint64_t missing = 0;
  for_counts(
      [&](std::uint64_t group, std::uint64_t count) { missing += expected_[group] - count; });
  return missing;
}

void CellReport::write() {
  summaries_ = summarize();
  if (in_.context.outputs.empty()) return;
  for_pieces([&](const CellPiece& piece) {
    for (std::size_t i = 0; i < in_.columns.size(); ++i) {
      if (in_.columns[i].type != ElementType::f64) write(piece, i, undefined_integer(i));
    }
  });
}

void CellReport::describe(const stream::Checks& checks, Outcome& outcome) {
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
  std::uint64_t nans = in_.choice.skip != cells::Skip::none && all_have_groups()
                           ? missing - std::min(missing, checks.missing)
                           : 0;
  if (in_.request.is_row) {
    if (in_.choice.skip == cells::Skip::none) nans = in_.invalid.count;
    outcome.attributes.emplace_back("nans", static_cast<std::int64_t>(nans));
  }
  if (nans > 0) outcome.metrics.push_back({"nans", static_cast<std::int64_t>(nans)});
  if (in_.request.makes_arrays) {
    add_table(check, is_whole, outcome);
    if (in_.context.runtime.session.rank() == 0) label(outcome);
  } else {
    add_rows(check, is_whole, outcome);
  }
  out_of_range().describe(is_whole && outcome.verdict.empty(), outcome);
}

std::vector<CellReport::CellPiece> CellReport::pieces() const {
  std::vector<CellPiece> pieces;
  for (const CellInputs::Pass& pass : in_.passes) {
    cells::States roots = pass.roots;
    for (const Range part : pass.outputs) {
      for (std::uint64_t at = part.first; at < part.end();) {
        const std::uint64_t group = at / pass.cells.count, cell = at % pass.cells.count;
        const std::uint64_t count = std::min({max_piece, part.end() - at, pass.cells.count - cell});
        pieces.push_back({group, pass.cells.first + cell, count, roots});
        roots.words += count;
        at += count;
      }
    }
  }
  return pieces;
}

template <class Use>
void CellReport::for_pieces(const Use& use) const {
  const std::vector<CellPiece> all = pieces();
  parallel_for(all.size(), in_.context.runtime.resources.threads,
               [&](std::uint64_t i) { use(all[i]); });
}

template <class Use>
void CellReport::for_cells(const CellPiece& piece, const Use& use) const {
  for (std::uint64_t i = 0; i < piece.count; ++i) {
    use(load_(in_.rules.quantities, piece.roots.words + i, piece.roots.values), i);
  }
}

template <class Use>
void CellReport::for_counts(const Use& use) const {
  for (const CellPiece& piece : pieces()) {
    // The first word of all moments.
    for (std::uint64_t i = 0; i < piece.count; ++i) use(piece.group, piece.roots.words[i]);
  }
}

std::int64_t CellReport::undefined_integer(std::size_t column) const {
  if (in_.columns[column].statistic->is_position()) return cells::no_index;
  const std::array<bool, 2>& is_value = summaries_[column].is_value;
  return undefined_integers(in_.columns[column].type)[is_value[0] && !is_value[1] ? 1 : 0];
}

void CellReport::write(const CellPiece& piece, std::size_t column, std::int64_t undefined) const {
  std::vector<std::uint64_t> words(piece.count);
  const CellColumn& own = in_.columns[column];
  for_cells(piece, [&](const CellMoments& m, std::uint64_t i) {
    words[i] = own.word(own.statistic->value(view(piece.group, m)), undefined, in_.plan);
  });
  in_.context.outputs[column].write(piece.group * in_.plan.cells() + piece.first_cell,
                                    std::as_bytes(std::span(words)));
}

std::vector<CellSummary> CellReport::summarize() {
  std::vector<CellSummary> own(statistics_.size());
  std::mutex mutex;
  for_pieces([&](const CellPiece& piece) {
    const auto [summaries, largest] = summarize(piece);
    const std::lock_guard lock(mutex);
    for (std::size_t i = 0; i < own.size(); ++i) own[i].add(summaries[i]);
    largest_ = std::fmax(largest_, largest);
  });
  const auto all = in_.context.runtime.session.gather(own);
  for (CellSummary& each : own) each = {};
  for (std::size_t i = 0; i < all.size(); ++i) own[i % own.size()].add(all[i]);
  return own;
}

/// The first columns are those of the statistics. If their elements are real, they are written now,
/// so that moments are read once.
std::pair<std::vector<CellSummary>, double> CellReport::summarize(const CellPiece& piece) const {
  std::vector<CellSummary> summaries(statistics_.size());
  double largest = std::numeric_limits<double>::quiet_NaN();
  std::vector<std::vector<std::uint64_t>> words(in_.context.outputs.size());
  for (std::size_t c = 0; c < words.size(); ++c) {
    if (in_.columns[c].type == ElementType::f64) words[c].resize(piece.count);
  }
  std::vector<CellValue> values(statistics_.size());
  const bool has_extremes = in_.rules.quantities.has(cells::Quantity::extremes);
  for_cells(piece, [&](const CellMoments& m, std::uint64_t cell) {
    const CellView cell_view = view(piece.group, m);
    if (has_extremes && m.count > 0) largest = std::fmax(largest, m.max.real);
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = statistics_[i]->value(cell_view);
      summaries[i].add(values[i], undefined_integers(in_.columns[i].type));
    }
    for (std::size_t c = 0; c < words.size(); ++c) {
      if (words[c].empty()) continue;
      const CellColumn& column = in_.columns[c];
      const CellValue value = c < values.size() ? values[c] : column.statistic->value(cell_view);
      words[c][cell] = column.word(value, 0, in_.plan);
    }
  });
  const std::uint64_t first = piece.group * in_.plan.cells() + piece.first_cell;
  for (std::size_t c = 0; c < words.size(); ++c) {
    if (words[c].empty()) continue;
    in_.context.outputs[c].write(first, std::as_bytes(std::span(words[c])));
  }
  return {std::move(summaries), largest};
}

CellCheck CellReport::worst_check() {
  CellCheck worst;
  std::mutex mutex;
  for (const CellInputs::Pass& pass : in_.passes) {
    const auto check = [&](std::uint64_t box) {
      with_element_type(in_.rules.type, [&](auto tag) {
        const CellCheck own = check_box<typename decltype(tag)::type>(box, pass);
        const std::lock_guard lock(mutex);
        worst.add(own);
      });
    };
    parallel_for(in_.boxes.boxes.size(), in_.context.runtime.resources.threads, check);
  }
  const auto all = in_.context.runtime.session.gather(std::vector{worst});
  for (const CellCheck& other : all) worst.add(other);
  return worst;
}

template <class T>
CellCheck CellReport::check_box(std::size_t number, const CellInputs::Pass& pass) const {
  const CellPlan::Box& box = in_.boxes.boxes[number];
  const Range kept = in_.context.samples.ranges()[number];
  const auto* x = reinterpret_cast<const T*>(in_.context.samples.data(number)) +
                  (box.elements.first - kept.first);
  const std::uint64_t groups = in_.plan.layout().groups;
  // The cells of the box that have elements, and their numbers in the list, from 1 on.
  std::vector<std::pair<std::uint64_t, CellSample<T>>> cells;
  std::vector<std::uint32_t> number_of(groups * box.cells.count, 0);
  in_.plan.visit(box.elements, [&](const CellPlan::Element& element) {
    const T value = *x++;
    const std::int32_t group = in_.groups ? in_.groups->group_of[element.grouped] : 0;
    if (group < 0 || element.cell - pass.cells.first >= pass.cells.count) return;
    const std::uint64_t place =
        static_cast<std::uint64_t>(group) * box.cells.count + element.cell - box.cells.first;
    if (number_of[place] == 0) {
      cells.push_back({place, {}});
      number_of[place] = static_cast<std::uint32_t>(cells.size());
    }
    CellSample<T>& cell = cells[number_of[place] - 1].second;
    const auto marker = static_cast<T>(in_.choice.marker);
    if (in_.choice.skip != cells::Skip::none && cells::is_skipped(value, in_.choice.skip, marker)) {
      return;
    }
    cell.count += in_.choice.skip == cells::Skip::none ? 1 : cells::counted(value);
    cell.values.push_back(value);
    cell.numbers.push_back(static_cast<std::int64_t>(element.value));
    if (in_.weights) cell.weights.push_back(in_.weights->values[element.weight]);
  });
  CellCheck worst;
  const std::uint64_t samples = in_.boxes.boxes.size() * groups * in_.boxes.max_cells;
  for (const auto& [place, sample] : cells) {
    const std::uint64_t group = number * groups + place / box.cells.count;
    const std::uint64_t at = group * in_.boxes.max_cells + place % box.cells.count;
    const cells::Quantities quantities = of_lanes(in_.choice).quantities;
    worst.add(
        check_cell(sample, load_(quantities, pass.samples->data() + at, samples), quantities));
  }
  return worst;
}

std::string CellReport::fault_of(const stream::Checks& checks, const CellCheck& check,
                                 std::uint64_t missing) const {
  std::uint64_t wrong = 0;
  const bool is_exact = in_.choice.skip == cells::Skip::none;
  for_counts([&](std::uint64_t group, std::uint64_t count) {
    wrong += count > expected_[group] || (is_exact && count != expected_[group]) ? 1 : 0;
  });
  const ranks::Session& session = in_.context.runtime.session;
  wrong = session.sum(wrong);
  if (wrong > 0 && in_.request.is_row) return "not all elements were counted";
  if (wrong > 0) return fmt::format("{} cells have a wrong number of values", wrong);
  // NaNs that no attribute declares are additional; integers have none.
  const bool is_wrong =
      in_.rules.has_integers() ? missing != checks.missing : missing < checks.missing;
  if (all_have_groups() && in_.choice.skip == cells::Skip::missing && is_wrong) {
    return fmt::format("{} values are left out, but the conversion has found {} missing", missing,
                       checks.missing);
  }
  for (const auto& [name, deviation] : named(check)) {
    if (deviation.passes()) continue;
    return fmt::format("the {} of a sampled {} is {:.3g} away from its reference, more than {:.3g}",
                       name, in_.request.is_row ? "range" : "cell", deviation.error,
                       deviation.bound);
  }
  return {};
}

void CellReport::add_attributes(Outcome& outcome) const {
  outcome.attributes.emplace_back("missing_policy", in_.missing_policy);
  outcome.attributes.emplace_back("cells", static_cast<std::int64_t>(in_.plan.cells()));
  outcome.attributes.emplace_back("lanes", static_cast<std::int64_t>(in_.plan.layout().lanes));
  outcome.attributes.emplace_back("unit_elements",
                                  static_cast<std::int64_t>(in_.plan.unit_elements()));
  outcome.attributes.emplace_back("cell_passes", static_cast<std::int64_t>(in_.passes.size()));
  constexpr auto most = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  for (const auto& [name, count] :
       {std::pair("ddof", in_.rules.ddof), std::pair("min_count", in_.rules.min_count)}) {
    outcome.attributes.emplace_back(name, static_cast<std::int64_t>(std::min(count, most)));
  }
  if (in_.groups) outcome.attributes.emplace_back("groups", in_.groups->by);
  if (in_.weights) outcome.attributes.emplace_back("weights", in_.weights->name);
}

OutOfRange CellReport::out_of_range() const {
  OutOfRange found;
  for (std::size_t i = 0; i < summaries_.size(); ++i) {
    const std::string op(statistics_[i]->name);
    const bool is_integer =
        statistics_[i]->type_for(in_.rules.type, in_.rules.is_weighted()) != ElementType::f64;
    if (summaries_[i].overflows > 0) (is_integer ? found.wide : found.overflow).push_back(op);
    if (summaries_[i].underflows > 0) found.underflow.push_back(op);
  }
  return found;
}

void CellReport::add_table(const CellCheck& check, bool is_whole, Outcome& outcome) const {
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
  for (std::size_t i = 0; i < statistics_.size(); ++i) {
    const Statistic& op = *statistics_[i];
    const CellSummary& all = summaries_[i];
    constexpr double nan = std::numeric_limits<double>::quiet_NaN();
    const double min = all.defined > 0 ? all.min.real : nan;
    const double max = all.defined > 0 ? all.max.real : nan;
    const Deviation deviation = check.*op.check;
    table.add({std::string(op.name), min, max, static_cast<std::int64_t>(all.undefined),
               std::int64_t{is_whole && is_in_range(all)}, deviation.error, deviation.bound});
    const std::string key = op.key();
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

void CellReport::add_rows(const CellCheck& check, bool is_whole, Outcome& outcome) const {
  Table& table = statistics_table(outcome);
  for (std::size_t i = 0; i < statistics_.size(); ++i) {
    const Statistic& op = *statistics_[i];
    const Single single = only_value(op);
    const bool has_index = single.index != cells::no_index;
    const Deviation deviation = check.*op.check;
    const std::string position =
        has_index ? join(in_.plan.coordinates(static_cast<std::uint64_t>(single.index)), ",") : "";
    const std::string coordinates = has_index ? coordinates_of_value(single.index) : "";
    table.add({std::string(op.name), single.real, single.exact, single.index, position, coordinates,
               std::int64_t{is_whole && is_in_range(summaries_[i])}, deviation.error,
               deviation.bound});
    const std::string key = op.key();
    outcome.metrics.push_back({.key = key, .value = single.exact, .number = single.real});
    if (!position.empty()) outcome.metrics.push_back({key + "_position", position});
    if (!coordinates.empty()) outcome.metrics.push_back({key + "_coordinates", coordinates});
  }
}

/// Only rank 0, whose results count, reads coordinates.
std::string CellReport::coordinates_of_value(std::int64_t number) const {
  if (in_.context.runtime.session.rank() != 0) return {};
  std::vector<std::string> warnings;
  const std::vector<io::Extents> positions{
      in_.plan.coordinates(static_cast<std::uint64_t>(number))};
  const std::string text = io::coordinates_at(in_.source, positions, warnings).front();
  for (const std::string& warning : warnings) in_.context.runtime.log.warn(warning);
  return text;
}

std::string CellReport::exact_text(const Statistic& op, const CellValue& value) const {
  return op.exact_text(value, in_.rules.type, in_.rules.is_weighted());
}

CellReport::Single CellReport::only_value(const Statistic& op) const {
  Single single;
  for (const CellPiece& piece : pieces()) {  // at most one, of one cell
    const CellMoments m = load_(in_.rules.quantities, piece.roots.words, piece.roots.values);
    single = single_of(op, m, op.value(view(piece.group, m)));
  }
  const ranks::Session& session = in_.context.runtime.session;
  single.exact = session.broadcast(single.exact);
  single.real = session.gather(std::vector{single.real}).front();
  single.index = session.gather(std::vector{single.index}).front();
  return single;
}

CellReport::Single CellReport::single_of(const Statistic& op, const CellMoments& m,
                                         const CellValue& value) const {
  Single single{.real = value.real, .exact = exact_text(op, value)};
  if (value.real != value.real) {
    if (op.is_element()) single.index = in_.invalid.first;
    return single;
  }
  if (op.index != nullptr) single.index = m.*op.index;
  const bool is_integer_sum = op.is_sum() && in_.rules.has_integers() && !in_.rules.is_weighted();
  if (is_integer_sum) single.exact = fmt::format("{}", m.exact_sum);
  if (op.is_element() && in_.rules.type == ElementType::f32) {
    single.exact = fmt::format("{}", static_cast<float>(value.real));
  }
  return single;
}

void CellReport::label(Outcome& outcome) const {
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

}  // namespace shardstream::workloads
