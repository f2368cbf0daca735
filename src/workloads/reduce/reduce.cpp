#include "workloads/reduce/reduce.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "core/error.hpp"
#include "core/text.hpp"
#include "io/source/matrix.hpp"
#include "io/source/source.hpp"
#include "kernels/cells/row_units.hpp"
#include "workloads/reduce/cells/cell_reduction.hpp"
#include "workloads/reduce/order/order.hpp"
#include "workloads/reduce/reduce_report.hpp"
#include "workloads/reduce/reduce_statistics.hpp"
#include "workloads/stream/composite.hpp"
#include "workloads/stream/task.hpp"

namespace shardstream::workloads {
namespace {

/// The rows of [reduce].
std::span<const OptionRow> rows() {
  static const std::string operations = statistic_choices() + "|median|quantile(Q,Q)";
  static const std::string other_names = statistic_other_names() + " med=median";
  static const std::string about_operations = fmt::format(
      "The operations: {}; quantile(0.05,0.95) gives the values below which 5 % and 95 % of the "
      "elements lie.",
      statistic_meanings());
  static const std::array all = {
      OptionRow{"reduce.ops", OptionKind::list, "count,sum,mean,variance,stddev,min,max",
                operations, about_operations, other_names},
      OptionRow{
          "reduce.over", OptionKind::list, "all", "",
          "Dimensions over which statistics are taken, by name or by number from 0. The other "
          "dimensions remain in the result."},
      OptionRow{"reduce.by", OptionKind::text, "", "",
                "Groups along one of these dimensions: TIME:month, TIME:season or TIME:year for a "
                "dimension with dates, or FILE:/PATH, a list of labels."},
      OptionRow{"reduce.weights", OptionKind::text, "", "",
                "Weights of the elements: FILE:/PATH, with some of the dimensions of the data."},
      OptionRow{"reduce.ddof", OptionKind::count, "0", "0..",
                "Divisor of variance and stddev: n - ddof. 0 is the population, 1 a sample of it."},
      OptionRow{"reduce.min-count", OptionKind::count, "0", "0..",
                "With fewer values than this, every result but count is undefined (NaN)."},
      OptionRow{
          "reduce.quantile-method", OptionKind::choice, "linear", quantile_methods,
          "How median and quantiles are computed from the elements next to them; the names are "
          "those of numpy.quantile."},
      OptionRow{"reduce.missing", OptionKind::choice, "auto", "auto|ignore|propagate|error",
                "Missing values and NaNs are left out (ignore), make every result but count NaN "
                "(propagate), or end the run (error). With auto, values that attributes declare as "
                "missing are left out, and other NaNs propagate."},
  };
  return all;
}

std::size_t dimension_named(const io::Source& source, const std::string& text) {
  try {
    return io::find_dimension(source, text);
  } catch (const UsageError& error) {
    throw UsageError(fmt::format("reduce.over: {}", error.what()));
  }
}

/// The dimensions that reduce.over names, in ascending order; all of them by default.
std::vector<std::size_t> reduced_dimensions(const Options& options, const io::Source& source) {
  if (options.text("reduce.over") == "all") {
    const std::vector<std::size_t> all = io::kept_dimensions(source);
    return all.empty() ? std::vector<std::size_t>{0} : all;  // a single element
  }
  std::vector<std::size_t> dimensions;
  for (const std::string& text : options.list("reduce.over")) {
    const std::size_t dimension = dimension_named(source, text);
    if (std::ranges::find(dimensions, dimension) != dimensions.end()) {
      throw UsageError(
          fmt::format("reduce.over names the dimension {} twice: name it once", printable(text)));
    }
    dimensions.push_back(dimension);
  }
  std::ranges::sort(dimensions);
  return dimensions;
}

/// The operations for which `has` is true, in their order.
template <class Has>
std::vector<std::string> some(const std::vector<std::string>& ops, const Has& has) {
  std::vector<std::string> found;
  std::ranges::copy_if(ops, std::back_inserter(found), has);
  return found;
}

/// Whether the order of storage is row by row: a box has all indices of every dimension but the
/// first.
bool is_row_major(const io::Source& source) {
  for (std::size_t d = 1; d < source.dimensions().size(); ++d) {
    if (source.box()[d] <= source.dimensions()[d].axis.last()) return false;
  }
  return true;
}

/// Cells and order statistics, as far as they are requested. All elements together are one row. The
/// numbers of positions follow the dimensions, so if these have another order, cells find them.
std::unique_ptr<stream::Computation> create(const Options& options, const io::Source& source) {
  const std::vector<std::string> ops = options.list("reduce.ops");
  const bool has_dimensions =
      options.text("reduce.over") != "all" || !options.text("reduce.by").empty();
  const bool is_whole = !has_dimensions && options.text("reduce.weights").empty();
  const std::vector<std::string> ordered = some(ops, is_order_statistic);
  if (!ordered.empty() && !is_whole) {
    throw UsageError(
        fmt::format("reduce.ops: {} is available only for all elements together: "
                    "leave out reduce.over, reduce.by and reduce.weights",
                    ordered.front()));
  }
  const bool is_ordered = is_row_major(source);
  const auto of_row = [&](const std::string& op) {
    return is_whole && !is_order_statistic(op) && (is_ordered || !statistic(op).is_position());
  };
  const auto of_cells = [&](const std::string& op) {
    return !of_row(op) && !is_order_statistic(op);
  };
  std::vector<std::unique_ptr<stream::Computation>> parts;
  if (const auto own = some(ops, of_row); !own.empty()) {
    parts.push_back(make_cell_reduction(options, source,
                                        {.ops = own,
                                         .reduced = {0},
                                         .makes_arrays = false,
                                         .is_row = true,
                                         .unit = cells::RowUnits::smallest}));
  }
  if (const auto own = some(ops, of_cells); !own.empty()) {
    const CellRequest request{.ops = own,
                              .reduced = reduced_dimensions(options, source),
                              .makes_arrays = has_dimensions,
                              .unit = is_whole ? cells::RowUnits(source.count()).unit : 1};
    parts.push_back(make_cell_reduction(options, source, request));
  }
  if (!ordered.empty()) {
    with_element_type(source.type(), [&](auto type) {
      using T = typename decltype(type)::type;
      parts.push_back(std::make_unique<OrderStatistics<T>>(options, source));
    });
  }
  return stream::composite(std::move(parts));
}

/// A study increases the number of values of the cells, and not that of the cells.
Scaled scaled(const Options& options, double factor, std::string_view grow) {
  if (options.text("reduce.over") == "all") return stream::scaled(options, factor, grow);
  const bool is_shape =
      !io::names_file(options, "input.data") && !options.text("input.shape").empty();
  const std::unique_ptr<io::Source> source = io::open_source(options);
  const std::vector<std::size_t> reduced = reduced_dimensions(options, *source);
  if (is_shape) return scaled_shape(options, reduced.front(), factor);
  if (reduced.front() == 0) return stream::scaled(options, factor, grow);
  throw UsageError(
      "reduce.over keeps the first dimension, so input.rows would add cells in a weak scaling "
      "study: reduce the first dimension, or use generated data with input.shape");
}

std::unique_ptr<Task> open_reduce(const Options& options) {
  return stream::open_task(options, create);
}

}  // namespace

Workload reduce_workload() {
  return {.name = "reduce",
          .summary = "statistics of all elements, in one pass",
          .example = "--input.data sea.h5:/elevation -o sea-stats.h5",
          .options = {rows()},
          .honours = stream::honoured_keys(),
          .data = {"input.data"},
          .sizes = {"input.count", "input.shape"},
          .open = open_reduce,
          .grows = {"elements"},
          .scaled = scaled};
}

}  // namespace shardstream::workloads
