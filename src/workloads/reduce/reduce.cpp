#include "workloads/reduce/reduce.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/shard.hpp"
#include "core/text.hpp"
#include "core/units.hpp"
#include "io/source/source.hpp"
#include "measure/source_ceilings.hpp"
#include "workloads/reduce/passes.hpp"
#include "workloads/reduce/report.hpp"

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

/// How the ranks read the source. If they read in several ways, each has its number of ranks.
/// Collective.
std::string access_of_all(const ranks::Session& session, const io::Source& source) {
  std::map<std::string, int> ranks;
  for (const std::string& access : session.gather(source.access())) ++ranks[access];
  if (ranks.size() == 1) return source.access();
  return join(ranks, "; ", [&](const auto& access) {
    return fmt::format("{} ({} of {} ranks)", access.first, access.second, session.size());
  });
}

/// Adds the attributes of the input and the resolved options. Collective.
void describe(const ranks::Session& session, const io::Source& source, Outcome& outcome) {
  const auto as_integers = [](const std::vector<std::uint64_t>& extents) {
    return std::vector<std::int64_t>(extents.begin(), extents.end());
  };
  const std::string type(name_of(source.type()));
  for (const auto& [name, value] :
       std::initializer_list<std::pair<const char*, io::AttributeValue>>{
           {"name", source.name()},
           {"type", type},
           {"shape", as_integers(source.order().shape())},
           {"box", as_integers(source.order().box())},
           {"access", access_of_all(session, source)},
           {"stored_bytes", static_cast<std::int64_t>(source.stored_bytes())}}) {
    outcome.input.push_back({"/input", name, value});
  }
  outcome.resolved.emplace_back("input.type", type);
  outcome.resolved.emplace_back("input.rows",
                                static_cast<std::int64_t>(source.order().shape().front()));
  const auto stored = source.stored({0, 1});
  outcome.resolved.emplace_back("input.read", stored && stored->past_cache ? "direct" : "cached");
}

/// Adds the state of the page cache when the run began.
void report(const measure::PageCache& cache, Outcome& outcome) {
  if (cache.state.empty()) return;
  outcome.input.push_back({"/input", "page_cache", cache.state});
  if (cache.share) outcome.input.push_back({"/input", "page_cache_share", *cache.share});
  outcome.metrics.push_back({"page_cache", cache.state});
}

/// The ceilings for data in memory on its way into the kernels. Collective.
std::vector<measure::Ceiling> memory_ceilings(const runtime::Runtime& runtime,
                                              const pipeline::Sizes& sizes, std::uint64_t element,
                                              std::uint64_t shard_bytes) {
  using pipeline::Mode;
  const auto& resources = runtime.resources;
  const ranks::Session& session = runtime.session;
  const std::uint64_t bytes =
      measure::host_memory_sample(resources.cache, resources.host_memory, resources.ranks_on_host);
  // Slots stay in the cache; without slots the data comes from memory.
  const measure::Effort effort = measure::effort_for(
      *runtime.device, session, shard_bytes,
      pipeline::is_staged(sizes.mode) ? sizes.slots * sizes.slot * element : bytes,
      sizes.device_limit);
  std::vector<measure::Ceiling> ceilings;
  const bool read_in_place = sizes.mode == Mode::mapped && resources.backend == Backend::host;
  if (sizes.mode != Mode::resident && !read_in_place) {
    ceilings.push_back(measure::link(measure::LinkDirection::up, *runtime.device, session, effort));
  }
  if (resources.backend == Backend::cuda && sizes.mode != Mode::mapped) {
    ceilings.push_back(measure::device_read(*runtime.device, session, effort));
  }
  // Below this size, a shard could stay in the processor's caches.
  const bool too_small = session.max(bytes > shard_bytes ? 1 : 0) > 0;
  const bool copied = sizes.mode == Mode::pageable, read = resources.backend == Backend::host;
  if (sizes.mode == Mode::stream || too_small || !(copied || read)) return ceilings;
  const measure::HostMemory memory(session, resources.threads, bytes);
  if (copied) ceilings.push_back(memory.copy({sizes.readers, sizes.slots, sizes.slot * element}));
  if (read) ceilings.push_back(memory.read());
  return ceilings;
}

/// One run of `reduce`. Every function is collective, and execute() calls each once, in this order.
template <class T>
class Run {
 public:
  Run(runtime::Runtime& runtime, io::Source& source)
      : runtime_(runtime),
        session_(runtime.session),
        source_(source),
        request_{runtime.options.list("reduce.ops"), runtime.options.text("reduce.nan")},
        elements_(source.order().count()),
        mine_(shard(elements_, leaf_elements, static_cast<std::uint64_t>(session_.rank()),
                    static_cast<std::uint64_t>(session_.size()))) {}

  Outcome execute() {
    session_.collectively([&] {
      sizes_ =
          ShardReduction<T>::choose_sizes(runtime_.options, runtime_.resources, source_, mine_);
    });
    measure_memory();
    const measure::PageCache cache = measure::page_cache(session_, source_, mine_);
    session_.collectively([&] { source_.prepare(mine_); });
    allocate();
    measure_source(cache);
    load();
    repeat();
    reject_nans();
    find_overflow();
    const auto span = runtime_.recorder.phase("verify", PhaseKind::useful);
    verify(cache);
    describe_run();
    return std::move(outcome_);
  }

 private:
  using Wide = reduce::Extreme<T>;
  using measure::PhaseKind;

  void measure_memory() {
    const auto span = runtime_.recorder.phase("ceilings", PhaseKind::useful);
    outcome_.ceilings = memory_ceilings(runtime_, sizes_, sizeof(T), mine_.count * sizeof(T));
    for (auto& ceiling : outcome_.ceilings) ceiling.on_path = true;
  }

  void allocate() {
    const auto span = runtime_.recorder.phase("allocate", PhaseKind::useful);
    session_.collectively([&] {
      shard_reduction_.emplace(runtime_, source_, mine_, sizes_, request_.want());
      root_fold_.emplace(runtime_, elements_);
    });
  }

  void measure_source(const measure::PageCache& cache) {
    if (sizes_.mode != pipeline::Mode::stream) return;
    const auto span = runtime_.recorder.phase("ceilings", PhaseKind::useful);
    for (auto& ceiling :
         measure::source_ceilings(session_, source_, mine_, {sizes_.readers, sizes_.slot}, cache)) {
      outcome_.ceilings.push_back(std::move(ceiling));
    }
  }

  void load() {
    const auto span = runtime_.recorder.phase("load", PhaseKind::useful);
    shard_reduction_->load();
  }

  void repeat() {
    outcome_.samples = measure::sample(
        session_, measure::sampling(runtime_.options), [this](bool timed) { repetition(timed); },
        &runtime_.recorder);
  }

  void repetition(bool timed) {
    std::vector<Partial<Wide>> own;
    {
      const auto span = runtime_.recorder.phase(timed ? "stream" : "warm-up", PhaseKind::useful,
                                                mine_.count * sizeof(T));
      own = shard_reduction_->run();
    }
    const auto span = runtime_.recorder.phase("combine", PhaseKind::communication);
    const Partial<Wide> again = root_fold_->run(shard_reduction_->compute(), own);
    repeatable_ = repeatable_ && (!total_ || same_statistics(*total_, again));
    total_ = again;
  }

  /// Throws AgreedError if there are NaNs and reduce.nan is error.
  void reject_nans() const {
    session_.collectively([&] {
      if (request_.nan != "error" || total_->nans == 0) return;
      throw Error(
          fmt::format("{} of {} elements of {} are NaN, the first at ({}): pass --reduce.nan "
                      "ignore or propagate",
                      total_->nans, elements_, source_.name(), place(source_, total_->first_nan)));
    });
  }

  /// If sums are not finite, determines whether they have overflowed or an element is not finite.
  /// Only sums of f64 can overflow. This takes another pass if the extremes were not requested.
  void find_overflow() {
    if constexpr (std::is_same_v<T, double>) {
      if (std::isfinite(total_->sum) && std::isfinite(total_->m2)) return;
      if (total_->nans > 0 && !request_.want().skip_nans) return;
      Partial<Wide> extremes = *total_;
      if (!request_.want().extremes) {
        const auto span = runtime_.recorder.phase("extremes", PhaseKind::useful);
        shard_reduction_->add_extremes();
        extremes = root_fold_->run(shard_reduction_->compute(), shard_reduction_->run());
      }
      // Infinities of one sign alone do not make a sum NaN.
      const bool low = std::isinf(extremes.min), high = std::isinf(extremes.max);
      overflows_ = (!low && !high) || (std::isnan(total_->sum) && low != high);
    }
  }

  void verify(const measure::PageCache& cache) {
    reduce::LeafCheck check = shard_reduction_->verify();
    for (Deviation* deviation :
         {&check.exact, &check.sum, &check.mean, &check.variance, &check.stddev}) {
      *deviation = worst_of(session_, *deviation);
    }
    const std::uint64_t samples = session_.sum(shard_reduction_->samples());
    const std::int64_t counted = total_->count + (request_.want().skip_nans ? total_->nans : 0);
    const bool complete = counted == static_cast<std::int64_t>(elements_);
    outcome_.elements = elements_;
    outcome_.bytes = elements_ * sizeof(T);
    outcome_.work = moving(outcome_.bytes);
    if (!repeatable_) {
      outcome_.verdict = "the repetitions differ from one another";
    } else if (!complete) {
      outcome_.verdict = fmt::format("{} of {} elements were counted", counted, elements_);
    } else if (!check.exact.passes()) {
      outcome_.verdict =
          "a sampled leaf's count, NaNs or extremes, or the tree over a batch, are wrong";
    }
    report_values<T>(
        source_, request_, *total_, check,
        {.whole = repeatable_ && check.exact.passes() && complete, .overflows = overflows_},
        outcome_);
    report(cache, outcome_);
    if (outcome_.verified == Verification::passed) {
      outcome_.verdict = fmt::format("{} sampled leaves agree with their references", samples);
    }
  }

  void describe_run() {
    for (auto& ceiling : outcome_.ceilings) {
      if (ceiling.on_path) ceiling.load = static_cast<double>(outcome_.bytes) / 1e9;
    }
    describe(session_, source_, outcome_);
    for (const auto& [key, value] : pipeline::resolved(sizes_, sizeof(T))) {
      outcome_.resolved.emplace_back(key, static_cast<std::int64_t>(value));
    }
    outcome_.attributes = {{"nan", request_.nan},
                           {"nans", total_->nans},
                           {"leaf_elements", static_cast<std::int64_t>(leaf_elements)},
                           {"lanes", static_cast<std::int64_t>(reduce::lanes)}};
  }

  runtime::Runtime& runtime_;
  const ranks::Session& session_;
  io::Source& source_;
  const Request request_;
  const std::uint64_t elements_;
  const Range mine_;
  pipeline::Sizes sizes_;
  std::optional<ShardReduction<T>> shard_reduction_;
  std::optional<RootFold<Wide>> root_fold_;
  std::optional<Partial<Wide>> total_;
  bool repeatable_ = true;
  bool overflows_ = false;
  Outcome outcome_;
};

/// The lowest known ceiling on the path of the data.
struct Bound {
  std::string name = {};
  double rate = 0;           ///< bytes/s
  bool knows_source = true;  ///< a rate of the source is known

  void lower(const std::string& other, double other_rate) {
    if (!name.empty() && other_rate >= rate) return;
    name = other;
    rate = other_rate;
  }
};

Bound bound_of(const Options& options, const io::Source& source, measure::Machine& machine) {
  const auto mode = pipeline::mode(options);
  Bound bound;
  if (mode == pipeline::Mode::resident) {
    const std::string name =
        machine.backend() == Backend::host ? "host_memory_read" : "device_read";
    machine.set_ceilings({name});
    bound.lower(name, machine.rate(name));
    return bound;
  }
  const auto stored = source.stored({0, source.order().count()});
  const std::vector<std::string> ways =
      stored && stored->as_wanted ? std::vector<std::string>{"page_cache_read", "storage_read"}
                                  : std::vector<std::string>{"decode"};
  std::set<std::string> limits(ways.begin(), ways.end());
  if (mode != pipeline::Mode::stream) limits.clear();
  limits.insert("link_up");
  machine.set_ceilings(limits);
  machine.compare("decode", measure::read_conditions(source.type(), source.access()));
  bound.lower("link_up", machine.rate("link_up"));
  if (mode != pipeline::Mode::stream) return bound;
  bound.knows_source = false;
  for (const std::string& way : ways) {
    if (!machine.knows(way)) continue;
    bound.knows_source = true;
    bound.lower(way, machine.rate(way, 0, "GB/s"));
  }
  if (!bound.knows_source) machine.add_missing(ways);
  return bound;
}

/// The memory that a rank needs, as lines of text. Throws UsageError if the planned machine's
/// device memory is too small. The host memory of GPU nodes is unknown and not checked.
std::vector<std::string> memory_of(const Options& options, const io::Source& source, Range shard,
                                   measure::Machine& machine) {
  const std::uint64_t element = size_of(source.type());
  const runtime::Resources planned{.host_memory = UINT64_MAX,
                                   .device_memory = machine.device_memory(options),
                                   .process_memory = runtime::process_memory(machine.threads()),
                                   .backend = machine.backend()};
  const pipeline::Sizes sizes = with_element_type(source.type(), [&](auto type) {
    return ShardReduction<typename decltype(type)::type>::choose_sizes(options, planned, source,
                                                                       shard);
  });
  std::vector<std::string> lines = {
      fmt::format("device memory: {} of {}: {} of {}", format_size(sizes.device_bytes(element)),
                  format_size(sizes.device_limit), counted(sizes.batches, "batch"),
                  format_size(sizes.batch * element))};
  if (pipeline::host_memory(sizes.mode)) {
    const std::uint64_t bytes = shard.count * element;
    lines.push_back(
        fmt::format("host memory: {} for the shard of each rank, {} on a host; not "
                    "checked",
                    format_size(bytes), format_size(bytes * machine.ranks_on_host())));
  }
  return lines;
}

class ReduceTask : public Task {
 public:
  explicit ReduceTask(const Options& options)
      : options_(options), source_(io::open_source(options)) {}

  io::Origin inputs() const override { return source_->origin(); }

  std::string identity() const override { return io::identity_of(*source_); }

  Prediction predict(measure::Machine& machine) const override {
    const std::uint64_t elements = source_->order().count(), element = size_of(source_->type());
    const Range own = shard(elements, leaf_elements, 0, machine.ranks());
    const Bound bound = bound_of(options_, *source_, machine);
    const std::uint64_t bytes = own.count * element;
    const double seconds = static_cast<double>(bytes) / bound.rate;
    std::vector<std::string> answer = memory_of(options_, *source_, own, machine);
    answer.insert(
        answer.begin(),
        fmt::format("predicted: {} or more, bound by {}{}", format_duration(seconds), bound.name,
                    bound.knows_source ? "" : "; reading the source may be slower"));
    return {.answer = std::move(answer),
            .plan = {fmt::format("data: {}, {} elements of {}, {}", source_->name(), elements,
                                 name_of(source_->type()), format_size(elements * element)),
                     fmt::format("leaves: {} of {} elements; shard of rank 0: {} of them, {}",
                                 ceil_div(elements, leaf_elements), leaf_elements,
                                 ceil_div(own.count, leaf_elements), format_size(bytes))},
            .warnings = {},
            .seconds = seconds,
            .is_minimum = true};
  }

  Outcome run(runtime::Runtime& runtime, const RunFiles&) override {
    return with_element_type(source_->type(), [&](auto type) {
      return Run<typename decltype(type)::type>(runtime, *source_).execute();
    });
  }

 private:
  const Options& options_;
  const std::unique_ptr<io::Source> source_;
};

Scaled scaled_reduce(const Options& options, double factor, std::string_view) {
  if (io::names_file(options, "input.data")) return scaled_rows(options, factor);
  if (options.text("input.shape").empty()) return scaled_count(options, "input.count", factor);
  throw UsageError("input.shape cannot grow in a weak scaling study: pass --input.count instead");
}

}  // namespace

Workload reduce_workload() {
  return {.name = "reduce",
          .summary = "statistics of all elements, in one pass",
          .example = "--input.data sea.h5:/elevation -o sea-stats.h5",
          .options = {rows},
          .honours = {"input.data", "input.rows", "input.count", "input.shape", "pipeline.batch",
                      "pipeline.batches"},
          .data = {"input.data"},
          .sizes = {"input.count", "input.shape"},
          .open = [](const Options& options) -> std::unique_ptr<Task> {
            return std::make_unique<ReduceTask>(options);
          },
          .grows = {"elements"},
          .scaled = scaled_reduce};
}

}  // namespace shardstream::workloads
