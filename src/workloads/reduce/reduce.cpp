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
    OptionRow{"reduce.nan", OptionKind::choice, "propagate", "propagate|ignore|error",
              "NaNs make every result but count NaN, are left out, or end the run."},
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
      : source_(source), request_{options.list("reduce.ops"), options.text("reduce.nan")} {}

  pipeline::DeviceState device_state(Range shard) const override {
    const auto memory = reduce::tree_memory<T>(leaves_in(shard));
    return {.unit = leaf_elements, .per_unit = memory.per_leaf, .fixed = memory.fixed};
  }
  std::string_view unit_word() const override { return "leaves"; }

  void allocate(const stream::ShardContext& context) override {
    session_ = &context.runtime.session;
    shard_reduction_.emplace(context, request_.want());
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
         {total_.count, total_.nans, total_.first_nan, total_.min_index, total_.max_index}) {
      digest.add(number);
    }
  }

  void conclude(const stream::ExtraPass& extra_pass) override {
    reject_nans();
    find_overflow(extra_pass);
  }

  void report(const stream::Checks& checks, Outcome& outcome) override {
    reduce::LeafCheck check = shard_reduction_->verify();
    for (Deviation* deviation :
         {&check.exact, &check.sum, &check.mean, &check.variance, &check.stddev}) {
      *deviation = worst_of(*session_, *deviation);
    }
    const std::int64_t counted = total_.count + (request_.want().skip_nans ? total_.nans : 0);
    const bool complete = counted == static_cast<std::int64_t>(elements());
    if (!complete && outcome.verdict.empty()) {
      outcome.verdict = fmt::format("{} of {} elements were counted", counted, elements());
    }
    if (!check.exact.passes() && outcome.verdict.empty()) {
      outcome.verdict =
          "a sampled leaf's count, NaNs or extremes, or the tree over a batch, are wrong";
    }
    report_values<T>(
        source_, request_, total_, check,
        {.whole = checks.repeatable && check.exact.passes() && complete, .overflows = overflows_},
        outcome);
    outcome.attributes = {{"nan", request_.nan},
                          {"nans", total_.nans},
                          {"leaf_elements", static_cast<std::int64_t>(leaf_elements)},
                          {"lanes", static_cast<std::int64_t>(reduce::lanes)}};
  }

 private:
  using Wide = reduce::Extreme<T>;

  std::uint64_t elements() const { return source_.order().count(); }

  /// Throws AgreedError if there are NaNs and reduce.nan is error.
  void reject_nans() const {
    session_->collectively([&] {
      if (request_.nan != "error" || total_.nans == 0) return;
      throw Error(
          fmt::format("{} of {} elements of {} are NaN, the first at ({}): pass --reduce.nan "
                      "ignore or propagate",
                      total_.nans, elements(), source_.name(), place(source_, total_.first_nan)));
    });
  }

  /// If sums are not finite, determines whether they have overflowed or an element is not finite.
  /// Only sums of f64 can overflow. This takes another pass if the extremes were not requested.
  void find_overflow([[maybe_unused]] const stream::ExtraPass& extra_pass) {
    if constexpr (std::is_same_v<T, double>) {
      if (std::isfinite(total_.sum) && std::isfinite(total_.m2)) return;
      if (total_.nans > 0 && !request_.want().skip_nans) return;
      const Partial<Wide> total = total_;
      if (!request_.want().extremes) {
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
  const ranks::Session* session_ = nullptr;
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
