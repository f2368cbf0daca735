#include "workloads/reduce/reduce.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <numeric>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "core/error.hpp"
#include "io/source/source.hpp"
#include "workloads/reduce/passes.hpp"
#include "workloads/reduce/report.hpp"
#include "workloads/stream/task.hpp"

namespace shardstream::workloads {
namespace {

constexpr std::array rows = {
    OptionRow{"reduce.ops", OptionKind::list, "count,sum,mean,variance,stddev,min,max",
              "count|sum|mean|variance|stddev|min|max",
              "What to compute, in one pass; variance and stddev are those of the population."},
    OptionRow{"reduce.missing", OptionKind::choice, "auto", "auto|ignore|propagate|error",
              "Missing values and NaNs are left out (ignore), make every result but count NaN "
              "(propagate), or end the run (error). With auto, values that attributes declare as "
              "missing are left out, and other NaNs propagate."},
};

/// The worst deviation of any rank. Collective.
Deviation worst_of(const ranks::Session& session, const Deviation& mine) {
  const auto all = session.gather(std::vector{mine});
  return std::accumulate(all.begin() + 1, all.end(), all[0], Deviation::worse);
}

/// The Computation of `reduce`.
template <class T>
class Reduction : public stream::Computation {
 public:
  Reduction(const Options& options, const io::Source& source)
      : source_(source),
        request_{options.list("reduce.ops"), options.text("reduce.missing")},
        want_(want_of<T>(request_, source)) {}

  pipeline::DeviceState device_state(Range shard) const override {
    const auto memory = reduce::tree_memory<T>(leaves_in(shard));
    return {.unit = leaf_elements, .per_unit = memory.per_leaf, .fixed = memory.fixed};
  }
  std::string_view unit_word() const override { return "leaves"; }

  void allocate(const stream::ShardContext& context) override {
    session_ = &context.runtime.session;
    log_ = &context.runtime.log;
    shard_reduction_.emplace(context, want_);
    root_fold_.emplace(context.runtime, elements());
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
    find_overflow(extra_pass);
  }

  void report(const stream::Checks& checks, Outcome& outcome) override {
    reduce::LeafCheck check = shard_reduction_->verify();
    for (Deviation* deviation :
         {&check.exact, &check.sum, &check.mean, &check.variance, &check.stddev}) {
      *deviation = worst_of(*session_, *deviation);
    }
    const Invalid invalid = invalid_of(request_, total_, static_cast<std::int64_t>(checks.missing));
    const std::string fault = fault_of(invalid);
    if (!fault.empty() && outcome.verdict.empty()) outcome.verdict = fault;
    if (!check.exact.passes() && outcome.verdict.empty()) {
      outcome.verdict =
          "a sampled leaf's count, missing values or extremes, or the tree over a batch, are wrong";
    }
    std::vector<std::string> warnings;
    report_values<T>(source_, request_, total_, invalid, check,
                     {.whole = checks.repeatable && check.exact.passes() && fault.empty(),
                      .overflows = overflows_ && !invalid.makes_nan},
                     session_->rank() == 0, warnings, outcome);
    for (const std::string& warning : warnings) log_->warn(warning);
    outcome.attributes = {{"missing_policy", request_.missing},
                          {"nans", invalid.nans},
                          {"leaf_elements", static_cast<std::int64_t>(leaf_elements)},
                          {"lanes", static_cast<std::int64_t>(reduce::lanes)}};
  }

 private:
  using Wide = reduce::Extreme<T>;

  std::uint64_t elements() const { return source_.count(); }

  /// Throws AgreedError if values are missing or NaN, and reduce.missing is error.
  void reject_missing() const {
    session_->collectively([&] {
      if (request_.missing != "error" || total_.missing == 0) return;
      throw Error(fmt::format(
          "{} of {} values of {} are missing or NaN, the first at ({}): pass --reduce.missing "
          "ignore or propagate",
          total_.missing, elements(), source_.name(), place(source_, total_.first_missing)));
    });
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

  /// If sums are not finite, determines whether they have overflowed or an element is not finite.
  /// Only sums of f64 can overflow. This takes another pass if the extremes were not requested.
  void find_overflow([[maybe_unused]] const stream::ExtraPass& extra_pass) {
    if constexpr (std::is_same_v<T, double>) {
      if (std::isfinite(total_.sum) && std::isfinite(total_.m2)) return;
      const bool is_nan = !want_.skip_missing || request_.missing == "propagate";
      if (total_.missing > 0 && is_nan) return;
      const Partial<Wide> total = total_;
      if (!want_.extremes) {
        shard_reduction_->add_extremes();
        extra_pass("extremes");
      }
      // Infinities of one sign alone do not make a sum NaN.
      const bool low = std::isinf(total_.min), high = std::isinf(total_.max);
      overflows_ = (!low && !high) || (std::isnan(total.sum) && low != high);
      total_ = total;
    }
  }

  const io::Source& source_;
  const StatisticsRequest request_;
  const reduce::Want want_;
  const ranks::Session* session_ = nullptr;
  Log* log_ = nullptr;
  std::optional<ShardReduction<T>> shard_reduction_;
  std::optional<RootFold<Wide>> root_fold_;
  Partial<Wide> total_;
  bool overflows_ = false;
};

}  // namespace

Workload reduce_workload() {
  return {.name = "reduce",
          .summary = "statistics of all elements, in one pass",
          .example = "--input.data sea.h5:/elevation -o sea-stats.h5",
          .options = {rows},
          .honours = stream::honoured_keys(),
          .data = {"input.data"},
          .sizes = {"input.count", "input.shape"},
          .open = stream::open<Reduction>,
          .grows = {"elements"},
          .scaled = stream::scaled};
}

}  // namespace shardstream::workloads
