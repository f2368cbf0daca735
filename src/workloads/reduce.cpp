#include "workloads/reduce.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

#include "core/error.hpp"
#include "core/progress.hpp"
#include "core/shard.hpp"
#include "kernels/reduce/reduce.hpp"
#include "kernels/reduce/reference.hpp"
#include "kernels/reduce/tree.hpp"
#include "pipeline/feed.hpp"
#include "workloads/samples.hpp"

namespace shardstream::workloads {
namespace {

using reduce::Deviation;
using reduce::leaf_elements;
using reduce::Partial;
using reduce::PartialOf;
using reduce::PickArgs;
using reduce::Subtree;

constexpr std::array rows = {
    OptionRow{"reduce.ops", OptionKind::list, "count,sum,mean,variance,stddev,min,max",
              "count|sum|mean|variance|stddev|min|max",
              "What to compute, in one pass; variance and stddev are those of the population."},
    OptionRow{"reduce.nan", OptionKind::choice, "propagate", "propagate|ignore|error",
              "NaNs make every result but count NaN, are left out, or end the run."},
};

struct Request {
  std::vector<std::string> ops;
  std::string nan;

  bool has(std::string_view op) const { return std::ranges::find(ops, op) != ops.end(); }
  reduce::Want want() const {
    return {.extremes = has("min") || has("max"),
            .variance = has("variance") || has("stddev"),
            .skip_nans = nan == "ignore"};
  }
};

std::uint64_t leaves_in(Range elements) {
  return ceil_div(elements.count, leaf_elements);
}

/// One rank's pass over its shard: kernels on each batch, few nodes a batch, one list at the end.
template <class T>
class ShardReduction {
 public:
  using Class = reduce::Extreme<T>;

  ShardReduction(runtime::Runtime& runtime, const io::Source& source, Range shard,
                 reduce::Want want)
      : runtime_(runtime),
        shard_(shard),
        want_(want),
        sizes_(pipeline::plan(runtime.options, runtime.resources, shard.count, sizeof(T),
                              leaf_elements, sizeof(Partial<Class>),
                              leaves_in(shard) * sizeof(Partial<Class>))),
        samples_(shard, leaf_elements, sizeof(T)),
        feed_(*runtime.device, source, shard, sizes_) {
    for (std::uint64_t i = 0; i < feed_.batches(); ++i) {
      const Range batch = feed_.batch(i);
      first_node_.push_back(nodes_.size());
      const auto list = reduce::subtrees(batch.first / leaf_elements, leaves_in(batch));
      nodes_.insert(nodes_.end(), list.begin(), list.end());
    }
    partials_ = buffer(device::Memory::device, sizes_.batch / leaf_elements);
    node_partials_ = buffer(device::Memory::device, nodes_.size());
    sample_partials_ = buffer(device::Memory::device, samples_.ranges().size());
    downloaded_nodes_ = buffer(device::Memory::pinned, nodes_.size());
    downloaded_samples_ = buffer(device::Memory::pinned, samples_.ranges().size());
  }

  void load() {
    feed_.load([this](Range elements, const std::byte* data) { samples_.keep(elements, data); });
  }

  /// One pass; afterwards the largest whole subtrees of the shard, left to right.
  std::vector<Partial<Class>> run() {
    Progress progress("streaming", runtime_.session.rank() == 0);
    feed_.run(
        [&](device::Stream& compute, const pipeline::Batch& batch) {
          enqueue(compute, batch);
          progress.update(static_cast<double>(batch.elements.end() - shard_.first),
                          static_cast<double>(shard_.count));
        },
        [this](Range elements, const std::byte* data) { samples_.keep(elements, data); });
    feed_.compute().download(downloaded_nodes_.data(), node_partials_.data(),
                             node_partials_.bytes());
    feed_.compute().download(downloaded_samples_.data(), sample_partials_.data(),
                             sample_partials_.bytes());
    feed_.compute().synchronize();
    reduce::TreeFold<Class> fold;
    for (std::size_t i = 0; i < nodes_.size(); ++i) fold.push(nodes_[i], downloaded_nodes_[i]);
    std::vector<Partial<Class>> own;
    for (const auto& node : fold.nodes()) own.push_back(node.partial);
    return own;
  }

  /// The sampled leaves' partials against their references.
  reduce::LeafCheck verify() const {
    reduce::LeafCheck worst;
    for (std::size_t i = 0; i < samples_.ranges().size(); ++i) {
      const Range leaf = samples_.ranges()[i];
      const auto* elements = reinterpret_cast<const T*>(samples_.data(i));
      const auto check =
          reduce::check_leaf(elements, leaf.count, static_cast<std::int64_t>(leaf.first), want_,
                             downloaded_samples_[i]);
      worst.sum = Deviation::worse(worst.sum, check.sum);
      worst.m2 = Deviation::worse(worst.m2, check.m2);
      worst.extremes = Deviation::worse(worst.extremes, check.extremes);
    }
    return worst;
  }

  std::size_t samples() const { return samples_.ranges().size(); }
  device::Stream& compute() { return feed_.compute(); }

 private:
  device::Buffer<Partial<Class>> buffer(device::Memory kind, std::size_t count) {
    return {*runtime_.device, kind, count};
  }

  /// Leaves, then the sampled ones put aside, then the tree, of which the largest subtrees remain.
  void enqueue(device::Stream& compute, const pipeline::Batch& batch) {
    const std::uint64_t first_leaf = batch.elements.first / leaf_elements;
    const std::uint64_t leaves = leaves_in(batch.elements);
    compute.launch(reduce::leaves_kernel<T>(),
                   {reinterpret_cast<const T*>(batch.data), batch.elements.count,
                    batch.elements.first, partials_.data(), want_});
    pick_samples(compute, batch.elements);
    compute.launch(reduce::fold_kernel<Class>(), {partials_.data(), first_leaf, leaves});
    PickArgs<Class> pick{
        partials_.data(), node_partials_.data() + first_node_[batch.number], 0, {}};
    const std::size_t end =
        batch.number + 1 < first_node_.size() ? first_node_[batch.number + 1] : nodes_.size();
    for (std::size_t i = first_node_[batch.number]; i < end; ++i) {
      pick.places[pick.count++] = static_cast<std::uint32_t>(nodes_[i].first - first_leaf);
    }
    compute.launch(reduce::pick_kernel<Class>(), pick);
  }

  void pick_samples(device::Stream& compute, Range batch) {
    PickArgs<Class> pick{partials_.data(), sample_partials_.data(), 0, {}};
    const auto& ranges = samples_.ranges();
    for (std::size_t i = 0; i < ranges.size(); ++i) {
      if (intersection(batch, ranges[i]).count == 0) continue;
      if (pick.count == 0) pick.to += i;  // samples are in order: those of a batch are neighbours
      pick.places[pick.count++] =
          static_cast<std::uint32_t>((ranges[i].first - batch.first) / leaf_elements);
    }
    if (pick.count > 0) compute.launch(reduce::pick_kernel<Class>(), pick);
  }

  runtime::Runtime& runtime_;
  Range shard_;
  reduce::Want want_;
  pipeline::Sizes sizes_;
  LeafSamples samples_;
  std::vector<Subtree> nodes_;               // of all batches, in order
  std::vector<std::size_t> first_node_;      // of each batch
  device::Buffer<Partial<Class>> partials_;  // of the leaves of the batch at work
  device::Buffer<Partial<Class>> node_partials_, sample_partials_;
  device::Buffer<Partial<Class>> downloaded_nodes_, downloaded_samples_;
  pipeline::Feed feed_;  // last: its streams end before the buffers go
};

/// Gathers the ranks' subtrees and folds them into the root, on every rank.
template <class Class>
class RootFold {
 public:
  RootFold(runtime::Runtime& runtime, std::uint64_t elements)
      : runtime_(runtime),
        elements_(elements),
        send_(*runtime.device, device::Memory::device, most),
        receive_(*runtime.device, device::Memory::device, most * ranks()),
        staged_(*runtime.device, device::Memory::pinned, most * ranks()) {
    static_assert(most * sizeof(Partial<Class>) <= runtime::most_collective_bytes);
  }

  Partial<Class> run(device::Stream& stream, const std::vector<Partial<Class>>& own) {
    expect(own.size() <= most, "a shard is at most two subtrees of each level");
    std::ranges::copy(own, staged_.data());
    stream.upload(send_.data(), staged_.data(), own.size() * sizeof(Partial<Class>));
    runtime_.communicator->all_gather(stream, send_.data(), receive_.data(), send_.bytes());
    stream.download(staged_.data(), receive_.data(), receive_.bytes());
    stream.synchronize();
    reduce::TreeFold<Class> fold;
    for (std::size_t rank = 0; rank < ranks(); ++rank) {
      const Range part = shard(elements_, leaf_elements, rank, ranks());
      const auto places = reduce::subtrees(part.first / leaf_elements, leaves_in(part));
      for (std::size_t i = 0; i < places.size(); ++i) {
        fold.push(places[i], staged_[rank * most + i]);
      }
    }
    return fold.root();
  }

 private:
  static constexpr std::size_t most = 128;
  std::size_t ranks() const { return static_cast<std::size_t>(runtime_.session.size()); }

  runtime::Runtime& runtime_;
  std::uint64_t elements_;
  device::Buffer<Partial<Class>> send_, receive_, staged_;
};

/// What each operation's value is, and how exactly it prints.
template <class T>
class Values {
 public:
  using Class = reduce::Extreme<T>;
  struct Value {
    double real;
    std::string exact;  ///< all digits: the bits can be read back from it
    std::int64_t index = reduce::no_index;
  };

  Values(const Partial<Class>& total, bool propagate) : total_(total) {
    nan_ = propagate && total.nans > 0;
  }

  Value operator[](std::string_view op) const {
    if (op == "count") return integer(total_.count);
    if (op == "sum") return sum();
    if (op == "mean") return real(mean());
    if (op == "variance") return real(variance());
    if (op == "stddev") return real(std::sqrt(variance()));
    return op == "min" ? extreme(total_.min, total_.min_index)
                       : extreme(total_.max, total_.max_index);
  }

 private:
  static constexpr double quiet_nan = std::numeric_limits<double>::quiet_NaN();

  static Value real(double x) {
    if (std::isnan(x)) x = quiet_nan;  // one NaN: neither sign nor payload tells anything
    return {x, fmt::format("{}", x)};
  }
  template <class Integer>
  static Value integer(Integer x) {
    return {static_cast<double>(x), fmt::format("{}", x)};
  }
  Value sum() const {
    if constexpr (std::integral<T>)
      return integer(total_.sum);
    else
      return real(total_.sum);
  }
  double mean() const {
    return total_.count == 0 ? quiet_nan
                             : reduce::to_double(total_.sum) / static_cast<double>(total_.count);
  }
  double variance() const {
    return total_.count == 0 ? quiet_nan : total_.m2 / static_cast<double>(total_.count);
  }
  Value extreme(Class value, std::int64_t index) const {
    if (nan_) return {quiet_nan, "nan", total_.first_nan};
    if (index == reduce::no_index) return {quiet_nan, "nan"};
    if constexpr (std::integral<T>) {
      return {static_cast<double>(value), fmt::format("{}", value), index};
    } else {
      return {value, fmt::format("{}", static_cast<T>(value)), index};
    }
  }

  Partial<Class> total_;
  bool nan_;
};

std::string place(const io::Source& source, std::int64_t index) {
  if (index == reduce::no_index) return "";
  std::string text;
  for (const auto x : source.order().coordinates(static_cast<std::uint64_t>(index))) {
    text += fmt::format("{}{}", text.empty() ? "" : ",", x);
  }
  return text;
}

/// The worst deviation of any rank.
Deviation worst_of(const launch::Session& session, const Deviation& mine) {
  const auto all = session.gather(std::vector<double>{mine.error, mine.bound});
  Deviation worst{all[0], all[1]};
  for (std::size_t i = 2; i < all.size(); i += 2) {
    worst = Deviation::worse(worst, {all[i], all[i + 1]});
  }
  return worst;
}

/// The deviation that speaks for an operation.
Deviation deviation_of(std::string_view op, const reduce::LeafCheck& check) {
  if (op == "sum" || op == "mean") return check.sum;
  if (op == "variance" || op == "stddev") return check.m2;
  return check.extremes;
}

/// Fills the table and the printed lines; any operation that deviates too much undoes `verified`.
template <class T>
void report_values(const io::Source& source, const Request& request,
                   const Partial<reduce::Extreme<T>>& total, const reduce::LeafCheck& check,
                   Outcome& outcome) {
  Table table("reduce", {{"op", ColumnType::text},
                         {"value", ColumnType::real},
                         {"exact", ColumnType::text},
                         {"index", ColumnType::integer},
                         {"position", ColumnType::text},
                         {"validated", ColumnType::integer},
                         {"max_error", ColumnType::real},
                         {"tolerance", ColumnType::real}});
  const Values<T> values(total, request.nan == "propagate");
  for (const std::string& op : request.ops) {
    const auto value = values[op];
    const Deviation deviation = deviation_of(op, check);
    const std::string position = place(source, value.index);
    table.add({op, value.real, value.exact, value.index, position,
               std::int64_t{outcome.verified && deviation.passes()}, deviation.error,
               deviation.bound});
    outcome.metrics.push_back({op, value.exact});
    if (!position.empty()) outcome.metrics.push_back({op + "_position", position});
    if (!deviation.passes() && outcome.verdict.empty()) {
      outcome.verdict = fmt::format(
          "the {} of a sampled leaf is {:.3g} away from its reference, "
          "more than {:.3g}",
          op, deviation.error, deviation.bound);
    }
  }
  outcome.results.push_back(std::move(table));
  if (total.nans > 0) outcome.metrics.push_back({"nans", fmt::format("{}", total.nans)});
  outcome.verified = outcome.verified && outcome.verdict.empty();
}

void report_verdict(std::size_t own_samples, const launch::Session& session, Outcome& outcome) {
  double samples = 0;
  for (const double n : session.gather(std::vector<double>{static_cast<double>(own_samples)})) {
    samples += n;
  }
  if (outcome.verified) {
    outcome.verdict = fmt::format("{} sampled leaves agree with their references", samples);
  }
}

template <class T>
Outcome reduce_as(runtime::Runtime& runtime, const io::Source& source) {
  using Class = reduce::Extreme<T>;
  const launch::Session& session = runtime.session;
  const Request request{runtime.options.list("reduce.ops"), runtime.options.text("reduce.nan")};
  const std::uint64_t elements = source.order().count();
  const Range mine = shard(elements, leaf_elements, static_cast<std::uint64_t>(session.rank()),
                           static_cast<std::uint64_t>(session.size()));
  std::optional<ShardReduction<T>> shard_reduction;
  std::optional<RootFold<Class>> root_fold;
  {
    const auto span = runtime.recorder.phase("allocate");
    session.collectively([&] {
      shard_reduction.emplace(runtime, source, mine, request.want());
      root_fold.emplace(runtime, elements);
    });
  }
  {
    const auto span = runtime.recorder.phase("load");
    shard_reduction->load();
  }
  Outcome outcome;
  std::optional<Partial<Class>> total;
  bool repeatable = true;
  if (runtime.options.text("pipeline.mode") != "resident") {
    const auto span = runtime.recorder.phase("ceilings");
    outcome.ceilings.push_back(measure::link_up(*runtime.device, session));
  }
  outcome.repetitions = measure::repeat(runtime.options, session, [&] {
    std::vector<Partial<Class>> own;
    {
      const auto span = runtime.recorder.phase("stream", mine.count * sizeof(T));
      own = shard_reduction->run();
    }
    const auto span = runtime.recorder.phase("combine");
    const Partial<Class> again = root_fold->run(shard_reduction->compute(), own);
    repeatable = repeatable && (!total || std::memcmp(&*total, &again, sizeof(again)) == 0);
    total = again;
  });
  session.collectively([&] {
    if (request.nan != "error" || total->nans == 0) return;
    throw Error(
        fmt::format("{} of {} elements of {} are NaN, the first at ({}): pass --reduce.nan "
                    "ignore or propagate",
                    total->nans, elements, source.name(), place(source, total->first_nan)));
  });
  const auto span = runtime.recorder.phase("verify");
  reduce::LeafCheck check = shard_reduction->verify();
  for (Deviation* deviation : {&check.sum, &check.m2, &check.extremes}) {
    *deviation = worst_of(session, *deviation);
  }
  const std::int64_t seen = total->count + (request.want().skip_nans ? total->nans : 0);
  outcome.elements = elements;
  outcome.bytes = elements * sizeof(T);
  outcome.verified = repeatable && seen == static_cast<std::int64_t>(elements);
  outcome.verdict = !repeatable ? "the repetitions differ from one another"
                    : !outcome.verified
                        ? fmt::format("{} of {} elements were counted", seen, elements)
                        : std::string();
  report_values<T>(source, request, *total, check, outcome);
  report_verdict(shard_reduction->samples(), session, outcome);
  outcome.attributes = {{"nan", request.nan},
                        {"nans", total->nans},
                        {"leaf_elements", static_cast<std::int64_t>(leaf_elements)},
                        {"lanes", static_cast<std::int64_t>(reduce::lanes)}};
  return outcome;
}

}  // namespace

std::span<const OptionRow> reduce_options() {
  return rows;
}

Outcome reduce(runtime::Runtime& runtime, const io::Source& source) {
  return with_element_type(source.type(), [&](auto type) {
    return reduce_as<typename decltype(type)::type>(runtime, source);
  });
}

}  // namespace shardstream::workloads
