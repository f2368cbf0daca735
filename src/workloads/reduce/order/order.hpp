// The Computation of order statistics: exact quantiles of all elements, which are unique. So they
// are the same on any ranks and backend, in whatever order the elements are counted.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "workloads/reduce/missing.hpp"
#include "workloads/reduce/order/method.hpp"
#include "workloads/reduce/order/request.hpp"
#include "workloads/reduce/order/samples_check.hpp"
#include "workloads/reduce/order/search.hpp"
#include "workloads/reduce/reduce_report.hpp"
#include "workloads/stream/computation.hpp"

namespace shardstream::workloads {

template <class T>
class OrderStatistics : public stream::Computation {
 public:
  OrderStatistics(const Options& options, const io::Source& source)
      : source_(source),
        quantiles_(quantiles_of(options.list("reduce.ops"))),
        method_(options.text("reduce.quantile-method")),
        policy_(options.text("reduce.missing")),
        min_count_(options.count("reduce.min-count")) {
    if (!std::floating_point<T> && source.declares_missing()) {
      missing_ = {true, static_cast<T>(source.conversions().front().missing_element)};
    }
  }

  void plan(const pipeline::BatchMemory& memory, const stream::Shards&) override {
    memory_ = memory.left;
  }
  pipeline::DeviceState device_state(Range shard) const override {
    return {.unit = 16,
            .per_unit = 0,
            .fixed = order_statistics::Search<T>::device_bytes(source_, shard, memory_) +
                     order::max_intervals * sizeof(std::uint64_t)};
  }
  std::vector<std::string> description() const override {
    return {"order statistics: 1 pass over the data expected, 2 if a sample misleads"};
  }

  void allocate(const stream::ShardContext& context) override {
    context_ = &context;
    std::vector<double> fractions;
    for (const Quantile& each : quantiles_) fractions.push_back(each.q);
    search_.emplace(context, source_, missing_, memory_, std::move(fractions));
    check_.emplace(context);
  }

  void begin_pass(device::Stream& compute) override {
    if (verifies_) {
      search_->begin_count(compute, distinct_keys());
      check_->begin(compute);
    } else {
      search_->begin_pass(compute);
    }
  }
  void enqueue(device::Stream& compute, const pipeline::Batch& batch) override {
    search_->enqueue(compute, batch);
    if (!verifies_) return;
    context_->samples.visit(batch.elements, [&](std::size_t, Range common) {
      const std::uint64_t offset = common.first - batch.elements.first;
      search_->count(compute, reinterpret_cast<const T*>(batch.data) + offset, common.count,
                     check_->counts());
    });
  }
  void end_pass(device::Stream& compute) override {
    if (verifies_) check_->download(compute);
  }

  stream::Next combine(device::Stream& compute) override {
    search_->combine(compute);
    if (verifies_) return stream::Next::done;
    const auto& division = search_->division();
    const std::uint64_t declared = context_->runtime.session.sum(context_->feed.missing());
    counts_ = {.elements = division.total(), .invalid = division.missing(), .declared = declared};
    if (!search_->find(compute, wanted(), keys_)) return stream::Next::another_pass;
    result_ = std::move(keys_);
    keys_.clear();
    passes_ = search_->passes();
    search_->restart();
    return stream::Next::done;
  }

  void add_result(stream::Digest& digest) const override {
    digest.add(counts_.elements);
    digest.add(counts_.invalid);
    for (const auto& [rank, key] : result_) {
      digest.add(rank);
      digest.add(key);
    }
  }

  void conclude(const stream::ExtraPass& extra_pass) override {
    if (policy_ == "error") {
      reject_missing<T>(*context_, source_, counts_.invalid,
                        [&](std::uint64_t, T value) { return missing_(value); });
    }
    verifies_ = true;
    extra_pass("verify-order");
  }

  void report(const stream::Checks& checks, Outcome& outcome) override {
    const std::string fault = fault_of(checks);
    if (!fault.empty() && outcome.verdict.empty()) outcome.verdict = fault;
    const bool passes = checks.repeatable && fault.empty();
    Table& table = statistics_table(outcome);
    for (const Quantile& each : quantiles_) {
      const auto [real, exact] = value(each);
      table.add({each.op, real, exact, cells::no_index, std::string{}, std::string{},
                 std::int64_t{passes}, 0.0, 0.0});
      outcome.metrics.push_back({.key = each.op, .value = exact, .number = real});
    }
    outcome.metrics.push_back({"passes", passes_});
    outcome.attributes.emplace_back("missing_policy", policy_);
    outcome.attributes.emplace_back("nans", nans());
    outcome.attributes.emplace_back("passes", passes_);
    outcome.attributes.emplace_back("quantile_method", method_);
    if (nans() > 0) outcome.metrics.push_back({"nans", nans()});
    if (passes) outcome.verified = Verification::passed;
  }

 private:
  using Key = order::Key<T>;

  /// Numbers of elements.
  struct Counts {
    std::uint64_t elements = 0;
    std::uint64_t invalid = 0;   ///< missing or NaN
    std::uint64_t declared = 0;  ///< missing, as attributes declare
  };

  std::uint64_t valid() const { return counts_.elements - counts_.invalid; }
  std::int64_t nans() const {
    return static_cast<std::int64_t>(counts_.invalid - counts_.declared);
  }
  /// Whether all results are NaN because of elements that are not valid, or too few that are.
  bool is_nan() const {
    if (valid() < min_count_) return true;
    if (policy_ == "propagate") return counts_.invalid > 0;
    return policy_ == "auto" && nans() > 0;
  }

  /// The ranks of all order statistics that the quantiles need, sorted.
  std::vector<std::uint64_t> wanted() const {
    if (valid() == 0 || is_nan()) return {};
    std::set<std::uint64_t> ranks;
    for (const Quantile& each : quantiles_) {
      const QuantilePosition place = place_of(method_, valid(), each.q);
      ranks.insert({place.lower, place.upper});
    }
    return {ranks.begin(), ranks.end()};
  }
  std::vector<Key> distinct_keys() const {
    std::set<Key> keys;
    for (const auto& [rank, key] : result_) keys.insert(key);
    return {keys.begin(), keys.end()};
  }

  /// The value, and all its digits: those of the element's type if it is an element.
  std::pair<double, std::string> value(const Quantile& quantile) const {
    if (result_.empty()) return {std::numeric_limits<double>::quiet_NaN(), "nan"};
    const QuantilePosition place = place_of(method_, valid(), quantile.q);
    const T lower = order::value_of<T>(result_.at(place.lower));
    const T upper = order::value_of<T>(result_.at(place.upper));
    if (lower == upper) return {static_cast<double>(lower), fmt::format("{}", lower)};
    const double real = interpolate(lower, upper, place.weight);
    return {real, fmt::format("{}", real)};
  }

  /// The fault that the last pass, which counts the elements below and equal to each order
  /// statistic, has found; empty if there is none. Collective.
  std::string fault_of(const stream::Checks& checks) const {
    const auto& division = search_->division();
    const bool samples_agree =
        context_->runtime.session.max(check_->agrees(division, missing_) ? 0 : 1) == 0;
    if (division.total() != source_.count()) {
      return fmt::format("{} of {} elements were counted", division.total(), source_.count());
    }
    if (division.missing() != counts_.invalid || counts_.declared != checks.missing || nans() < 0 ||
        (!std::floating_point<T> && nans() > 0)) {
      return fmt::format("{} values are missing, but the conversion has found {}",
                         division.missing(), checks.missing);
    }
    for (const auto& [rank, key] : result_) {
      const auto found = division.find(rank);
      if (found.part->keys.first == key && found.part->is_single()) continue;
      return fmt::format("the element of rank {} is not {}", rank, order::value_of<T>(key));
    }
    return samples_agree ? "" : "the counts of a sampled range are wrong";
  }

  const io::Source& source_;
  const std::vector<Quantile> quantiles_;
  const std::string method_, policy_;
  const std::uint64_t min_count_;  ///< with fewer valid elements, all results are NaN
  order::Missing<T> missing_;
  std::uint64_t memory_ = UINT64_MAX;  // device memory that may be used
  const stream::ShardContext* context_ = nullptr;
  std::optional<order_statistics::Search<T>> search_;
  std::optional<order_statistics::SamplesCheck<T>> check_;
  Counts counts_;
  std::map<std::uint64_t, Key> keys_, result_;  // by rank: of this repetition, of the last one
  std::int64_t passes_ = 0;
  bool verifies_ = false;
};

}  // namespace shardstream::workloads
