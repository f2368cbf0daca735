#include "workloads/histogram/histogram.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "kernels/data/generate.hpp"
#include "workloads/histogram/count.hpp"
#include "workloads/histogram/histogram_options.hpp"
#include "workloads/histogram/reference.hpp"
#include "workloads/stream/task.hpp"

namespace shardstream::workloads {
namespace {

using namespace histogram;

/// The Computation of `histogram`.
template <class T>
class Histogram : public stream::Computation {
 public:
  Histogram(const Options& options, const io::Source& source)
      : source_(source), bins_(bins_of(options)), elements_(source.count()) {}

  pipeline::DeviceState device_state(Range) const override {
    return {.unit = 16, .per_unit = 0, .fixed = 2 * counters_ * sizeof(std::uint64_t)};
  }

  void allocate(const stream::ShardContext& context) override {
    context_ = &context;
    device::Device& device = *context.runtime.device;
    counts_ = {device, device::Memory::device, 2 * counters_};
    zeros_ = {device, device::Memory::pinned, 2 * counters_};
    total_ = {device, device::Memory::pinned, counters_};
    sampled_ = {device, device::Memory::pinned, counters_};
    std::fill_n(zeros_.data(), zeros_.size(), 0);
  }
  void begin_pass(device::Stream& compute) override {
    compute.upload(counts_.data(), zeros_.data(), zeros_.bytes());
  }
  void enqueue(device::Stream& compute, const pipeline::Batch& batch) override {
    CountArgs<T> args{.elements = reinterpret_cast<const T*>(batch.data),
                      .counts = counts_.data(),
                      .cells = cells_,
                      .ranges = 1,
                      .range = {{0, batch.elements.count}}};
    compute.launch(count_kernel<T>(), args);
    args.counts += counters_;
    args.ranges = 0;
    context_->samples.visit(batch.elements, [&](std::size_t, Range common) {
      args.range[args.ranges++] = {common.first - batch.elements.first, common.count};
    });
    if (args.ranges > 0) compute.launch(count_kernel<T>(), args);
  }
  stream::Next combine(device::Stream& compute) override {
    comm::Communicator& ranks = *context_->runtime.communicator;
    ranks.all_reduce(compute, counts_.data(), counts_.data(), counters_, comm::SumType::i64);
    compute.download(total_.data(), counts_.data(), total_.bytes());
    ranks.wait(compute);
    return stream::Next::done;
  }
  void add_result(stream::Digest& digest) const override {
    for (std::size_t i = 0; i < counters_; ++i) digest.add(total_[i]);
  }

  void report(const stream::Checks& checks, Outcome& outcome) override {
    auto counts = bin_counts<T>(bins_, total_.data());
    const std::uint64_t counted = std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
    const bool samples_agree = context_->runtime.session.max(samples_differ() ? 1 : 0) == 0;
    std::uint64_t& with_missing = counts[place_of_missing()];
    const bool are_missing = with_missing >= checks.missing;
    if (are_missing) with_missing -= checks.missing;
    if (checks.repeatable && counted == elements_ && are_missing && samples_agree) {
      outcome.verified = Verification::passed;
    } else if (checks.repeatable) {
      outcome.verdict =
          counted != elements_ ? fmt::format("{} of {} elements were counted", counted, elements_)
          : are_missing        ? "the numbers of elements of sampled ranges in the bins are wrong"
                        : fmt::format("fewer than the {} missing values were counted as such",
                                      checks.missing);
    }
    outcome.attributes = {
        {"low", bins_.low}, {"high", bins_.high}, {"bins", static_cast<std::int64_t>(bins_.count)}};
    add_tables(counts, checks.missing, outcome);
  }

 private:
  static_assert(stream::SampledRanges::max <= CountArgs<T>::max_ranges);

  /// The index in bin_counts() of missing values. The kernels count them like other elements.
  std::uint32_t place_of_missing() const {
    if (std::floating_point<T> || !source_.declares_missing()) return bins_.count + nan;
    return place_of(bins_, static_cast<T>(source_.conversions().front().missing_element));
  }

  /// Counts the sampled ranges of this rank on the host, with missing values.
  bool samples_differ() {
    std::vector<std::uint64_t> expected(bins_.count + outside_counters);
    const stream::SampledRanges& samples = context_->samples;
    for (std::size_t i = 0; i < samples.ranges().size(); ++i) {
      add_reference_counts(bins_, reinterpret_cast<const T*>(samples.data(i)),
                           samples.ranges()[i].count, expected);
    }
    device::Stream& compute = context_->feed.compute();
    compute.download(sampled_.data(), counts_.data() + counters_, sampled_.bytes());
    compute.synchronize();
    return bin_counts<T>(bins_, sampled_.data()) != expected;
  }

  /// `counts` is as of bin_counts(), without missing values.
  void add_tables(const std::vector<std::uint64_t>& counts, std::uint64_t missing,
                  Outcome& outcome) const {
    Table bins(
        "bins",
        {{"left", ColumnType::real}, {"right", ColumnType::real}, {"count", ColumnType::integer}});
    std::uint64_t checksum = 0, in_range = 0;
    for (std::uint32_t i = 0; i < bins_.count; ++i) {
      bins.add({bins_.edge(i), bins_.edge(i + 1), static_cast<std::int64_t>(counts[i])});
      checksum = mix(checksum ^ counts[i]);
      in_range += counts[i];
    }
    Table summary(
        "histogram",
        {{"part", ColumnType::text}, {"exact", ColumnType::text}, {"checksum", ColumnType::text}});
    const auto add = [&](const char* part, std::uint64_t number, const std::string& bits = {}) {
      summary.add({std::string(part), std::to_string(number), bits});
      outcome.metrics.push_back({part, static_cast<std::int64_t>(number)});
    };
    add("in_range", in_range, fmt::format("{:016x}", checksum));
    add("below", counts[bins_.count + below]);
    add("above", counts[bins_.count + above]);
    add("nan", counts[bins_.count + nan]);
    if (source_.declares_missing()) {  // the kit prints it
      summary.add({std::string("missing"), std::to_string(missing), std::string()});
    }
    if (in_range > 0) {
      const auto largest = std::max_element(counts.begin(), counts.begin() + bins_.count);
      outcome.metrics.push_back({"largest_bin", std::int64_t{largest - counts.begin()}});
      outcome.metrics.push_back({"largest_count", static_cast<std::int64_t>(*largest)});
    } else if (missing < elements_ && context_->runtime.session.rank() == 0) {
      context_->runtime.log.warn("no element is in the range of the bins: see histogram.range");
    }
    outcome.results = {std::move(summary), std::move(bins)};
  }

  const io::Source& source_;
  const Bins bins_;
  const Cells<T> cells_{bins_};
  const std::size_t counters_ = cells_.count() + outside_counters;
  const std::uint64_t elements_;
  const stream::ShardContext* context_ = nullptr;
  device::Buffer<std::uint64_t> counts_;  // of all elements, then of the sampled ranges
  device::Buffer<std::uint64_t> zeros_, total_, sampled_;
};

}  // namespace

Workload histogram_workload() {
  return {.name = "histogram",
          .summary = "numbers of elements in equal bins of a range",
          .example = "--input.data sea.h5:/elevation --histogram.range -11000,9000",
          .options = {histogram_options()},
          .honours = stream::honoured_keys(),
          .data = {"input.data"},
          .sizes = {"input.count", "input.shape"},
          .open = stream::open<Histogram>,
          .grows = {"elements"},
          .scaled = stream::scaled};
}

}  // namespace shardstream::workloads
