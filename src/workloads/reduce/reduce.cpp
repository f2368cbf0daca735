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
#include "workloads/reduce/cells/cell_reduction.hpp"
#include "workloads/reduce/double_range.hpp"
#include "workloads/reduce/order/order.hpp"
#include "workloads/reduce/passes.hpp"
#include "workloads/reduce/report.hpp"
#include "workloads/reduce/statistics.hpp"
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

/// The statistics of each leaf. If the data have a convention for missing values, leaves always
/// leave them out, so that the count is that of valid values under every policy.
template <class T>
reduce::Want want_of(const std::vector<std::string>& ops, const std::string& missing,
                     const io::Source& source) {
  const auto need = [&](cells::Quantity quantity) {
    return std::ranges::any_of(
        ops, [=](const std::string& op) { return statistic(op).needs.has(quantity); });
  };
  const bool declared = source.declares_missing();
  reduce::Want want{.extremes = need(cells::Quantity::extremes),
                    .variance = need(cells::Quantity::squares),
                    .skip_missing = declared};
  if constexpr (std::floating_point<T>) {
    want.skip_missing = declared || missing == "ignore";
  } else if (declared) {
    const auto marker = static_cast<T>(source.conversions().front().missing_element);
    want.marker = static_cast<std::int64_t>(marker);
  }
  return want;
}

/// The worst deviation of any rank. Collective.
reduce::Deviation worst_of(const ranks::Session& session, const reduce::Deviation& mine) {
  const auto all = session.gather(std::vector{mine});
  return std::accumulate(all.begin() + 1, all.end(), all[0], reduce::Deviation::worse);
}

/// The Computation of `reduce`.
template <class T>
class Reduction : public stream::Computation {
 public:
  Reduction(const Options& options, const io::Source& source, std::vector<std::string> ops)
      : source_(source),
        ops_(std::move(ops)),
        missing_(options.text("reduce.missing")),
        want_(want_of<T>(ops_, missing_, source)),
        rules_{.type = source.type(),
               .quantities = want_.extremes ? cells::Quantity::extremes : cells::Quantities(),
               .ddof = options.count("reduce.ddof"),
               .min_count = options.count("reduce.min-count")} {}

  pipeline::DeviceState device_state(Range shard) const override {
    const auto memory = reduce::tree_memory<T>(leaves_in(shard));
    return {.unit = leaf_elements, .per_unit = memory.per_leaf, .fixed = memory.fixed};
  }
  std::string_view unit_word() const override { return "leaves"; }

  void allocate(const stream::ShardContext& context) override {
    session_ = &context.runtime.session;
    log_ = &context.runtime.log;
    shard_reduction_.emplace(context, want_);
    root_fold_.emplace(context.runtime, context.shards);
  }
  void enqueue(device::Stream& compute, const pipeline::Batch& batch) override {
    shard_reduction_->enqueue(compute, batch);
  }
  void end_pass(device::Stream& compute) override { shard_reduction_->download(compute); }
  stream::Next combine(device::Stream& compute) override {
    total_ = root_fold_->run(compute, shard_reduction_->subtrees());
    return stream::Next::done;
  }

  void add_result(stream::Digest& digest) const override {
    digest.add(total_.sum);
    digest.add(total_.m2);
    digest.add(total_.min);
    digest.add(total_.max);
    for (const std::int64_t number :
         {total_.count, total_.missing, total_.first_missing, total_.min_index, total_.max_index}) {
      digest.add(number);
    }
  }

  void conclude(const stream::ExtraPass& extra_pass) override {
    reject_missing();
    find_range(extra_pass);
  }

  void report(const stream::Checks& checks, Outcome& outcome) override {
    reduce::LeafCheck check = shard_reduction_->verify();
    for (reduce::Deviation* deviation :
         {&check.exact, &check.sum, &check.mean, &check.variance, &check.stddev}) {
      *deviation = worst_of(*session_, *deviation);
    }
    const Invalid invalid = invalid_of(static_cast<std::int64_t>(checks.missing));
    const std::string fault = fault_of(invalid);
    if (!fault.empty() && outcome.verdict.empty()) outcome.verdict = fault;
    if (!check.exact.passes() && outcome.verdict.empty()) {
      outcome.verdict =
          "a sampled leaf's count, missing values or extremes, or the tree over a batch, are wrong";
    }
    std::vector<std::string> warnings;
    report_leaves({.source = source_,
                   .ops = ops_,
                   .rules = rules_,
                   .total = all_moments(total_),
                   .invalid = invalid,
                   .check = check,
                   .is_whole = checks.repeatable && check.exact.passes() && fault.empty(),
                   .overflows = overflows_ && !invalid.makes_nan,
                   .underflows = underflows_ && !invalid.makes_nan},
                  session_->rank() == 0, warnings, outcome);
    for (const std::string& warning : warnings) log_->warn(warning);
    outcome.attributes = {{"missing_policy", missing_},
                          {"nans", invalid.nans},
                          {"leaf_elements", static_cast<std::int64_t>(leaf_elements)},
                          {"lanes", static_cast<std::int64_t>(reduce::lanes)}};
  }
  double largest() const override {
    return want_.extremes ? static_cast<double>(total_.max)
                          : std::numeric_limits<double>::quiet_NaN();
  }

 private:
  using Wide = reduce::Extreme<T>;

  std::uint64_t elements() const { return source_.count(); }

  /// Throws AgreedError if values are missing or NaN, and reduce.missing is error.
  void reject_missing() const {
    session_->collectively([&] {
      if (missing_ != "error" || total_.missing == 0) return;
      reject(source_, static_cast<std::uint64_t>(total_.missing), total_.first_missing);
    });
  }

  /// Of `missing` elements that attributes declare as missing.
  Invalid invalid_of(std::int64_t missing) const {
    const std::int64_t nans = total_.missing - missing;
    const bool all = missing_ == "propagate";
    const bool makes_nan = all ? total_.missing > 0 : missing_ == "auto" && nans > 0;
    // Leaves do not distinguish between NaNs and missing values.
    const bool is_known = makes_nan && (all || missing == 0);
    return {missing, nans, makes_nan, is_known ? total_.first_missing : reduce::no_index};
  }

  /// The fault if elements were not counted, or not as many are missing as the conversion has
  /// counted. NaNs that no attribute declares are additional; integers have none.
  std::string fault_of(const Invalid& invalid) const {
    const std::int64_t counted = total_.count + (want_.skip_missing ? total_.missing : 0);
    if (counted != static_cast<std::int64_t>(elements())) {
      return fmt::format("{} of {} elements were counted", counted, elements());
    }
    if (invalid.nans >= 0 && (std::floating_point<T> || invalid.nans == 0)) return {};
    return fmt::format("{} values are missing, but the conversion has found {}", total_.missing,
                       invalid.missing);
  }

  /// If sums are not finite, determines whether they have overflowed or an element is not finite;
  /// and if squares are very small, whether they have lost digits or all elements are equal. Only
  /// f64 has such values. This takes another pass if the extremes were not requested.
  void find_range([[maybe_unused]] const stream::ExtraPass& extra_pass) {
    if constexpr (std::is_same_v<T, double>) {
      const bool is_finite = std::isfinite(total_.sum) && std::isfinite(total_.m2);
      const bool is_small = want_.variance && total_.count > 0 &&
                            total_.m2 < smallest_sum(static_cast<double>(total_.count));
      if (is_finite && !is_small) return;
      const bool is_nan = !want_.skip_missing || missing_ == "propagate";
      if (total_.missing > 0 && is_nan) return;
      const Partial<Wide> total = total_;
      if (!want_.extremes) {
        shard_reduction_->add_extremes();
        extra_pass("extremes");
      }
      // Infinities of one sign alone do not make a sum NaN.
      const bool low = std::isinf(total_.min), high = std::isinf(total_.max);
      overflows_ = !is_finite && ((!low && !high) || (std::isnan(total.sum) && low != high));
      underflows_ = is_small && total_.min != total_.max;
      total_ = total;
    }
  }

  const io::Source& source_;
  const std::vector<std::string> ops_;
  const std::string missing_;  // the policy
  const reduce::Want want_;
  const CellRules rules_;
  const ranks::Session* session_ = nullptr;
  Log* log_ = nullptr;
  std::optional<ShardReduction<T>> shard_reduction_;
  std::optional<RootFold<Wide>> root_fold_;
  Partial<Wide> total_;
  bool overflows_ = false, underflows_ = false;
};

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

/// Leaves, cells and order statistics, as far as they are requested.
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
  const auto of_leaves = [&](const std::string& op) {
    return is_whole && !is_order_statistic(op) && statistic(op).leaf_check != nullptr;
  };
  const auto of_cells = [&](const std::string& op) {
    return !of_leaves(op) && !is_order_statistic(op);
  };
  std::vector<std::unique_ptr<stream::Computation>> parts;
  const auto add_typed = [&](auto make) {
    with_element_type(source.type(), [&](auto type) {
      parts.push_back(make.template operator()<typename decltype(type)::type>());
    });
  };
  if (const auto own = some(ops, of_leaves); !own.empty()) {
    add_typed([&]<class T> { return std::make_unique<Reduction<T>>(options, source, own); });
  }
  if (const auto own = some(ops, of_cells); !own.empty()) {
    const CellRequest request{.ops = own,
                              .reduced = reduced_dimensions(options, source),
                              .makes_arrays = has_dimensions,
                              .unit = is_whole ? leaf_elements : 1};
    parts.push_back(make_cell_reduction(options, source, request));
  }
  if (!ordered.empty()) {
    add_typed([&]<class T> { return std::make_unique<OrderStatistics<T>>(options, source); });
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

std::unique_ptr<Task> open(const Options& options) {
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
          .open = open,
          .grows = {"elements"},
          .scaled = scaled};
}

}  // namespace shardstream::workloads
