#include "workloads/reduce/cells/cell_reduction.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <type_traits>
#include <utility>

#include "core/error.hpp"
#include "core/units.hpp"

#include "workloads/reduce/cells/cell_memory.hpp"
#include "workloads/reduce/cells/cell_report.hpp"
#include "workloads/reduce/cells/cell_weights.hpp"
#include "workloads/reduce/cells/check.hpp"
#include "workloads/reduce/cells/exchange.hpp"
#include "workloads/reduce/cells/groups.hpp"
#include "workloads/reduce/cells/host_moments.hpp"
#include "workloads/reduce/cells/shard_cells.hpp"
#include "workloads/reduce/missing.hpp"
#include "workloads/reduce/reduce_statistics.hpp"

namespace shardstream::workloads {
namespace {

/// The values that do not count. With `error`, they are left out, so that the counts tell whether
/// there are any.
template <class T>
cells::Choice choice_of(const std::string& missing, const io::Source& source,
                        cells::Quantities quantities) {
  const bool declared = source.declares_missing();
  cells::Choice choice{.quantities = quantities};
  if (declared) choice.skip = cells::Skip::missing;
  if constexpr (std::floating_point<T>) {
    if (missing == "ignore" || missing == "error") choice.skip = cells::Skip::nans;
  } else if (declared) {
    choice.marker =
        static_cast<std::int64_t>(static_cast<T>(source.conversions().front().missing_element));
  }
  return choice;
}

/// In a row, units remember their extremes, so that an extreme is found afterwards. That takes no
/// time for each element.
cells::Quantities quantities_for(const CellRequest& request, ElementType type, bool is_weighted) {
  using cells::Quantity;
  const cells::Quantities all = quantities_of(request.ops, type, is_weighted);
  const bool has_places = std::ranges::any_of(request.ops, [](const std::string& op) {
    return statistic(op).is_element() || statistic(op).is_position();
  });
  return request.is_row && has_places ? all.without(Quantity::positions) | Quantity::units : all;
}

CellDimensions dimensions_of(const CellRequest& request, const std::optional<CellGroups>& groups,
                             const std::optional<CellWeights>& weights) {
  CellDimensions dimensions{.reduced = request.reduced};
  if (groups) {
    dimensions.grouped = groups->dimension;
    dimensions.groups = groups->count();
    dimensions.group_of = groups->group_of;
  }
  if (weights) dimensions.weighted = weights->dimensions;
  return dimensions;
}

/// The steps of each group, and the position of the first one of each group.
struct GroupSteps {
  std::vector<std::uint64_t> steps, first;

  explicit GroupSteps(const CellGroups& groups) : first(groups.count() + 1, 0) {
    for (const std::int32_t group : groups.group_of) {
      if (group >= 0) ++first[static_cast<std::size_t>(group) + 1];
    }
    for (std::size_t g = 1; g < first.size(); ++g) first[g] += first[g - 1];
    steps.resize(first.back());
    std::vector<std::uint64_t> next(first.begin(), first.end() - 1);
    for (std::size_t i = 0; i < groups.group_of.size(); ++i) {
      const std::int32_t group = groups.group_of[i];
      if (group >= 0) steps[next[static_cast<std::size_t>(group)]++] = i;
    }
  }
};

/// The layout of a plan with the lists that it points to, in device memory.
class DeviceLayout {
 public:
  /// Blocks until they are there.
  DeviceLayout(device::Device& device, device::Stream& stream, const cells::Layout& layout,
               const std::optional<CellGroups>& groups, const std::optional<CellWeights>& weights)
      : layout_(layout) {
    if (groups) {
      const GroupSteps steps(*groups);
      steps_ = uploaded(device, stream, steps.steps);
      first_step_ = uploaded(device, stream, steps.first);
      layout_.steps = steps_.data();
      layout_.first_step = first_step_.data();
    }
    if (weights) {
      weights_ = uploaded(device, stream, weights->values);
      layout_.weights = weights_.data();
    }
  }
  const cells::Layout& layout() const { return layout_; }

 private:
  cells::Layout layout_;
  device::Buffer<std::uint64_t> steps_, first_step_;
  device::Buffer<double> weights_;
};

/// The bytes of these lists.
std::uint64_t bytes_of_lists(const std::optional<CellGroups>& groups,
                             const std::optional<CellWeights>& weights) {
  const std::uint64_t steps = groups ? groups->group_of.size() + groups->count() + 1 : 0;
  return (steps + (weights ? weights->values.size() : 0)) * sizeof(std::uint64_t);
}

/// The pass that was combined last.
struct LastPass {
  std::uint64_t number = 0;
  cells::States roots = {};  ///< of this rank's outputs, in device memory
  bool is_downloaded = true;
};

/// The Computation. It makes a pass over the data for each range of cells that fits into the
/// device memory.
template <class T>
class CellReduction final : public stream::Computation {
 public:
  CellReduction(const Options& options, const io::Source& source, const CellRequest& request)
      : source_(source),
        request_(request),
        missing_(options.text("reduce.missing")),
        groups_(open_groups(options, source, request.reduced)),
        weights_(open_weights(options, source, request.reduced, request.ops)),
        rules_{.type = source.type(),
               .quantities = quantities_for(request, source.type(), weights_.has_value()),
               .ddof = options.count("reduce.ddof"),
               .min_count = options.count("reduce.min-count"),
               .propagates = missing_ == "propagate",
               .weight_exponent = weights_ ? weights_->exponent : 0,
               .has_arrays = request.makes_arrays},
        plan_(request.is_row ? row_of(source) : array_of(source),
              dimensions_of(request, groups_, weights_), request.unit),
        choice_(choice_of<T>(missing_, source, rules_.quantities)),
        memory_(plan_, {.words = cells::moment_words<T>(choice_.quantities),
                        .lists = bytes_of_lists(groups_, weights_),
                        .is_row = request.is_row}) {
    reject_operations();
  }

  void plan(const pipeline::BatchMemory& batches, const stream::Shards& shards) override {
    memory_.choose(batches, shards);
  }
  pipeline::DeviceState device_state(Range) const override {
    return {
        .unit = request_.unit, .per_unit = 0, .fixed = memory_.is_chosen() ? memory_.bytes() : 0};
  }
  std::uint64_t shard_unit() const override { return plan_.unit_elements(); }
  std::string_view unit_word() const override { return "units"; }
  std::uint64_t passes() const override { return memory_.passes(); }
  std::uint64_t max_samples() const override { return memory_.max_samples(); }
  std::string_view sample_word() const override { return request_.is_row ? "ranges" : "boxes"; }
  std::string coverage() const override {
    if (choice_.skip == cells::Skip::none) {
      return request_.is_row ? ", and all elements were counted"
                             : fmt::format(", and {} have the right number of values",
                                           counted(plan_.outputs(), "cell"));
    }
    const bool all_count = !groups_ || groups_->have_all();
    if (choice_.skip != cells::Skip::missing || !all_count) return {};
    return fmt::format(", and the values{} and the missing ones add up to all elements",
                       request_.is_row ? "" : " of " + counted(plan_.outputs(), "cell"));
  }
  std::vector<std::string> description() const override {
    if (request_.is_row) return {fmt::format("lanes: {} in each unit", plan_.layout().lanes)};
    return {fmt::format("cells: {} of {} values each{}; {}, {} over the data", plan_.cells(),
                        plan_.values(),
                        groups_ ? fmt::format(", in {} groups", plan_.layout().groups) : "",
                        counted(plan_.layout().lanes, "lane"), counted(memory_.passes(), "pass"))};
  }
  io::Origin further_inputs() const override {
    io::Origin origin;
    if (groups_) io::add(origin, groups_->origin);
    if (weights_) io::add(origin, weights_->origin);
    return origin;
  }
  std::string identity() const override {
    std::vector<std::string> names;
    if (groups_) names.push_back("groups " + groups_->by);
    if (weights_) names.push_back("weights " + weights_->name);
    return join(names, ", ");
  }
  std::vector<OutputArray> outputs() const override {
    if (!request_.makes_arrays) return {};
    return output_arrays(source_, plan_, groups_, columns());
  }

  void allocate(const stream::ShardContext& context) override {
    context_ = &context;
    device::Device& device = *context.runtime.device;
    device::Stream& stream = context.feed.compute();
    layout_.emplace(device, stream, plan_.layout(), groups_, weights_);
    samples_.emplace(plan_, context.samples, memory_.box_cells());
    moments_.emplace(device, stream, memory_.passes());
    begin_cells(0);
  }

  void connect() override { context_->runtime.communicator->connect(); }

  void enqueue(device::Stream& compute, const pipeline::Batch& batch) override {
    shard_->enqueue(compute, batch);
  }
  void end_pass(device::Stream& compute) override { shard_->end_pass(compute); }
  stream::Next combine(device::Stream& compute) override {
    last_.roots = exchange_->run(compute, *shard_);
    context_->runtime.communicator->wait(compute);
    last_.is_downloaded = false;
    if (memory_.passes() == 1) return stream::Next::done;
    const std::uint64_t next = (last_.number + 1) % memory_.passes();
    context_->runtime.session.collectively([&] {
      download();
      begin_cells(next);
    });
    return next == 0 ? stream::Next::done : stream::Next::another_pass;
  }

  void add_result(stream::Digest& digest) const override {
    download();
    const unsigned words = cells::moment_words<T>(choice_.quantities);
    for (std::uint64_t p = 0; p < memory_.passes(); ++p) {
      const std::uint64_t count = count_outputs(p);
      const cells::States& roots = moments_->roots(p);
      for (unsigned w = 0; w < words; ++w) {
        const std::uint64_t* const first = roots.words + w * roots.values;
        for (std::uint64_t i = 0; i < count; ++i) digest.add(first[i]);
      }
    }
  }

  void conclude(const stream::ExtraPass&) override {
    context_->runtime.session.collectively([&] { download(); });
    if (missing_ == "error") {
      const std::uint64_t missing = context_->runtime.session.sum(CellReport(inputs()).missing());
      reject_missing<T>(*context_, source_, missing, [&](std::uint64_t element, T value) {
        return is_skipped(value) && has_group(element);
      });
    }
    if (request_.is_row) conclude_row();
  }

  void report(const stream::Checks& checks, Outcome& outcome) override {
    CellReport report(inputs());
    report.write();
    report.describe(checks, outcome);
    largest_ = report.largest();
  }
  double largest() const override { return largest_; }

 private:
  bool is_skipped(T value) const {
    return choice_.skip != cells::Skip::none &&
           cells::is_skipped(value, choice_.skip, static_cast<T>(choice_.marker));
  }

  /// Finds the values that make the results NaN, or else the extremes. Collective.
  void conclude_row() {
    const ranks::Session& session = context_->runtime.session;
    const cells::States& root = moments_->roots(0);
    const bool has_root = count_outputs(0) > 0;
    bool is_nan = false;
    if (has_root) {
      const CellMoments m = any_moments(
          rules_.quantities, cells::Moments<T>::load(rules_.quantities, root.words, root.values));
      const CellView all(m, rules_, plan_.values());
      is_nan = all.sum_is_nan || all.has_nan ||
               (rules_.propagates && static_cast<std::uint64_t>(m.count) < plan_.values());
    }
    if (session.sum(std::uint64_t{is_nan}) > 0) {
      invalid_ = find_elements<T>(*context_, source_, [&](std::uint64_t, T value) {
        return is_skipped(value) ? rules_.propagates : value != value;
      });
    }
    if (invalid_.count == 0 && rules_.quantities.has(cells::Quantity::units)) {
      session.collectively([&] {
        if (has_root) find_extremes(root);
      });
    }
  }

  /// Replaces the units of the extremes by the numbers of the first elements that are equal to
  /// them.
  void find_extremes(const cells::States& root) const {
    const cells::Quantities all = rules_.quantities;
    auto m = cells::Moments<T>::load(all, root.words, root.values);
    const auto find = [&](auto key, std::int64_t& index) {
      if (index == cells::no_index) return;
      std::int64_t found = cells::no_index;
      for_elements<T>(source_, plan_.unit(static_cast<std::uint64_t>(index)),
                      [&](std::uint64_t element, T value) {
                        if (!is_skipped(value) && cells::extreme_key(value) == key) {
                          found = static_cast<std::int64_t>(element);
                        }
                        return found == cells::no_index;
                      });
      if (found == cells::no_index) {
        throw Error(fmt::format("{} has changed during the run: run it again", source_.name()));
      }
      index = found;
    };
    find(m.range.min, m.range.min_index);
    find(m.range.max, m.range.max_index);
    m.store(all, root.words, root.values);
  }

  /// Whether an element belongs to a group, or there are no groups.
  bool has_group(std::uint64_t element) const {
    if (!groups_) return true;
    std::int32_t group = -1;
    plan_.visit({element, 1},
                [&](const CellPlan::Element& at) { group = groups_->group_of[at.grouped]; });
    return group >= 0;
  }

  /// Read only once, since this may open files.
  const std::vector<CellColumn>& columns() const {
    if (!columns_) columns_ = columns_of(source_, plan_, request_, weights_.has_value());
    return *columns_;
  }

  /// Throws UsageError for operations that are not defined with weights.
  void reject_operations() const {
    if (!weights_) return;
    std::vector<std::string> undefined;
    for (const std::string& op : request_.ops) {
      if (statistic(op).has(Statistic::without_weights)) undefined.push_back(op);
    }
    if (undefined.empty()) return;
    throw UsageError(
        fmt::format("reduce.ops: {} cannot be combined with reduce.weights: leave them out",
                    join(undefined, ", ")));
  }

  /// Prepares for the cells of a pass.
  void begin_cells(std::uint64_t pass) {
    last_ = {.number = pass};
    exchange_.reset();
    shard_.reset();
    const cells::CellRange own = memory_.cells_of_pass(pass);
    shard_.emplace(*context_, plan_, layout_->layout(), choice_, *samples_, own, memory_.slots());
    exchange_.emplace(context_->runtime, plan_, memory_.nodes(), choice_, own);
    exchange_->prepare(context_->feed.compute());
  }

  /// This rank's outputs of a pass.
  std::vector<Range> own_outputs(std::uint64_t pass) const {
    const auto rank = static_cast<std::uint64_t>(context_->runtime.session.rank());
    return memory_.nodes().outputs(rank, memory_.cells_of_pass(pass), plan_.layout().groups);
  }

  std::uint64_t count_outputs(std::uint64_t pass) const {
    std::uint64_t count = 0;
    for (const Range part : own_outputs(pass)) count += part.count;
    return count;
  }

  /// Copies the moments of the last pass to the host.
  void download() const {
    if (last_.is_downloaded) return;
    last_.is_downloaded = true;
    moments_->set_roots(last_.number, last_.roots, count_outputs(last_.number),
                        cells::moment_words<T>(choice_.quantities));
    moments_->set_samples(last_.number, shard_->samples(),
                          cells::moment_words<T>(of_lanes(choice_).quantities));
  }

  CellInputs inputs() {
    std::vector<CellInputs::Pass> passes;
    for (std::uint64_t p = 0; p < memory_.passes(); ++p) {
      passes.push_back({.cells = memory_.cells_of_pass(p),
                        .outputs = own_outputs(p),
                        .roots = moments_->roots(p),
                        .samples = &moments_->samples(p)});
    }
    return {.context = *context_,
            .source = source_,
            .plan = plan_,
            .request = request_,
            .rules = rules_,
            .choice = choice_,
            .groups = groups_,
            .weights = weights_,
            .boxes = *samples_,
            .columns = columns(),
            .missing_policy = missing_,
            .invalid = invalid_,
            .passes = std::move(passes)};
  }

  const io::Source& source_;
  const CellRequest request_;
  const std::string missing_;
  const std::optional<CellGroups> groups_;
  const std::optional<CellWeights> weights_;
  const CellRules rules_;
  const CellPlan plan_;
  const cells::Choice choice_;
  CellMemory memory_;

  const stream::ShardContext* context_ = nullptr;
  std::optional<DeviceLayout> layout_;
  std::optional<SampledBoxes> samples_;
  std::optional<ShardCells<T>> shard_;
  std::optional<CellExchange<T>> exchange_;
  mutable LastPass last_;
  double largest_ = std::numeric_limits<double>::quiet_NaN();
  Found invalid_;  // of a row: the values that make the results NaN
  mutable std::optional<std::vector<CellColumn>> columns_;
  mutable std::optional<HostMoments> moments_;
};

}  // namespace

std::unique_ptr<stream::Computation> make_cell_reduction(const Options& options,
                                                         const io::Source& source,
                                                         const CellRequest& request) {
  return with_element_type(source.type(), [&](auto type) -> std::unique_ptr<stream::Computation> {
    return std::make_unique<CellReduction<typename decltype(type)::type>>(options, source, request);
  });
}

}  // namespace shardstream::workloads
