#include "workloads/stream/task.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/log.hpp"
#include "core/text.hpp"
#include "io/description/conventions.hpp"
#include "measure/sample.hpp"
#include "measure/source_ceilings.hpp"
#include "workloads/default_fill.hpp"

namespace shardstream::workloads::stream {
namespace {

using measure::PhaseKind;

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

/// Adds the state of the page cache when the run began.
void describe(const measure::PageCache& cache, Outcome& outcome) {
  if (cache.state.empty()) return;
  outcome.input.push_back({"/input", "page_cache", cache.state});
  if (cache.share) outcome.input.push_back({"/input", "page_cache_share", *cache.share});
  outcome.metrics.push_back({"page_cache", cache.state});
}

/// Adds the attributes of the input and the resolved options. Collective.
void describe(const ranks::Session& session, const io::Source& source, const pipeline::Sizes& sizes,
              Outcome& outcome) {
  const auto as_integers = [](const std::vector<std::uint64_t>& extents) {
    return std::vector<std::int64_t>(extents.begin(), extents.end());
  };
  const std::string type(word_of(source.type()));
  for (const auto& [name, value] :
       std::initializer_list<std::pair<const char*, io::AttributeValue>>{
           {"name", source.name()},
           {"type", type},
           {"shape", as_integers(source.shape())},
           {"box", as_integers(source.box())},
           {"access", access_of_all(session, source)},
           {"stored_bytes", static_cast<std::int64_t>(source.stored_bytes())}}) {
    outcome.input.push_back({"/input", name, value});
  }
  describe_dimensions(source, "/input", outcome);
  if (!source.conversions().empty()) {
    outcome.input.push_back({"/input", "conversion", io::text_of(source.conversions())});
  }
  describe_join(source.origin(), "/input", outcome);
  outcome.resolved.emplace_back("input.type", type);
  outcome.resolved.emplace_back("input.rows", static_cast<std::int64_t>(source.shape().front()));
  const auto reads = source.file_reads();
  outcome.resolved.emplace_back("input.read", reads && reads->past_cache ? "direct" : "cached");
  for (const auto& [key, value] : pipeline::resolved(sizes)) {
    outcome.resolved.emplace_back(key, static_cast<std::int64_t>(value));
  }
}

/// One run. Every function is collective, and execute() calls each once, in this order.
class Run {
 public:
  Run(runtime::Runtime& runtime, io::Source& source, std::unique_ptr<Computation> computation,
      std::span<const io::RangeWriter> outputs)
      : runtime_(runtime),
        session_(runtime.session),
        source_(source),
        computation_(std::move(computation)),
        outputs_(outputs),
        elements_(source.count()) {}

  Outcome execute() {
    plan();
    session_.collectively([&] {
      sizes_ = pipeline::choose_sizes(runtime_.options, runtime_.resources,
                                      pipeline::size_of_shard(source_, mine_, backend()),
                                      computation_->device_state(mine_));
    });
    measure_memory();
    const measure::PageCache cache = measure::page_cache(session_, source_, mine_);
    session_.collectively([&] { source_.prepare(mine_); });
    measure_source(cache);
    allocate();
    load();
    repeat();
    computation_->conclude([this](const char* phase) {
      const auto span = runtime_.recorder.phase(phase, PhaseKind::useful);
      progress_->extend(static_cast<double>(mine_.count));
      stream();
      computation_->combine(feed_->compute());
    });
    progress_.reset();
    const auto span = runtime_.recorder.phase("verify", PhaseKind::useful);
    report(cache);
    return std::move(outcome_);
  }

 private:
  /// The computation gets the memory that the batches leave.
  void plan() {
    shards_ = {elements_, computation_->shard_unit(), static_cast<std::uint64_t>(session_.size())};
    mine_ = shards_.of(static_cast<std::uint64_t>(session_.rank()));
    pipeline::BatchMemory batches{};
    session_.collectively([&] {
      batches = pipeline::batch_memory(runtime_.options, runtime_.resources,
                                       pipeline::size_of_shard(source_, mine_, backend()),
                                       computation_->device_state({}));
    });
    batches.left = static_cast<std::uint64_t>(-session_.max(-static_cast<double>(batches.left)));
    batches.batch = static_cast<std::uint64_t>(session_.max(static_cast<double>(batches.batch)));
    session_.collectively([&] { computation_->plan(batches, shards_); });
  }

  void measure_memory() {
    const auto span = runtime_.recorder.phase("ceilings", PhaseKind::useful);
    outcome_.ceilings = pipeline::memory_ceilings(runtime_, sizes_, mine_.count);
    for (auto& ceiling : outcome_.ceilings) {
      ceiling.on_path = true;
      const bool is_read = ceiling.name == "device_read" || ceiling.name == "host_memory_read";
      ceiling.load = gigabytes(is_read ? sizes_.device_bytes_of_pass() : sizes_.of.moved());
    }
  }

  void allocate() {
    const auto span = runtime_.recorder.phase("allocate", PhaseKind::useful);
    session_.collectively([&] {
      const std::uint64_t unit = computation_->device_state({}).unit;
      samples_.emplace(mine_, unit, sizes_.of.stored, computation_->max_samples());
      feed_.emplace(*runtime_.device, runtime_.recorder, source_, mine_, sizes_,
                    &session_.heartbeat());
      context_.emplace(ShardContext{runtime_, shards_, mine_, sizes_, *feed_, *samples_, outputs_});
      computation_->allocate(*context_);
    });
    computation_->connect();
  }

  void measure_source(const measure::PageCache& cache) {
    if (sizes_.mode != pipeline::Mode::stream) return;
    const auto span = runtime_.recorder.phase("ceilings", PhaseKind::useful);
    for (auto& ceiling :
         measure::source_ceilings(session_, source_, mine_, pipeline::readers_of(sizes_), cache)) {
      if (ceiling.on_path) ceiling.load = gigabytes(sizes_.of.stored);
      outcome_.ceilings.push_back(std::move(ceiling));
    }
  }

  Backend backend() const { return runtime_.resources.backend; }

  /// The amount that all ranks move if an element has `bytes` bytes.
  double gigabytes(std::uint64_t bytes) const {
    return static_cast<double>(elements_ * bytes) / 1e9;
  }

  bool shows_progress() const { return session_.rank() == 0 && runtime_.log.shows_progress(); }

  void load() {
    const auto span = runtime_.recorder.phase("load", PhaseKind::useful);
    Progress progress("loading", static_cast<double>(mine_.count), shows_progress());
    feed_->load([&](Range elements, const std::byte* data) {
      samples_->keep(elements, data);
      progress.add(static_cast<double>(elements.count));
    });
  }

  void repeat() {
    const measure::Sampling sampling = measure::sampling(runtime_.options);
    const double passes = static_cast<double>(sampling.calls() * computation_->passes());
    progress_.emplace("streaming", passes * static_cast<double>(mine_.count), shows_progress());
    outcome_.samples = measure::sample(
        session_, sampling, [this](bool timed) { repetition(timed); }, &runtime_.recorder,
        [this] { compare_repetitions(); });
  }

  void repetition(bool timed) {
    Next next = Next::another_pass;
    for (std::uint64_t pass = 0; next == Next::another_pass; ++pass) {
      if (pass >= computation_->passes()) progress_->extend(static_cast<double>(mine_.count));
      {
        const auto span = runtime_.recorder.phase(timed ? "stream" : "warm-up", PhaseKind::useful,
                                                  mine_.count * sizes_.bytes_of_pass());
        stream();
      }
      const auto span = runtime_.recorder.phase("combine", PhaseKind::communication);
      next = computation_->combine(feed_->compute());
    }
  }

  /// One pass over the shard.
  void stream() {
    computation_->begin_pass(feed_->compute());
    feed_->run(
        [&](device::Stream& compute, const pipeline::Batch& batch) {
          computation_->enqueue(compute, batch);
          progress_->add(static_cast<double>(batch.elements.count));
        },
        [this](Range elements, const std::byte* data) { samples_->keep(elements, data); });
    computation_->end_pass(feed_->compute());
    feed_->compute().synchronize();
  }

  void compare_repetitions() {
    if (measure::sampling(runtime_.options).calls() == 1) return;
    Digest digest;
    computation_->add_result(digest);
    digest.add(feed_->missing());
    repeatable_ = repeatable_ && digest == digest_.value_or(digest);
    digest_ = digest;
  }

  void report(const measure::PageCache& cache) {
    outcome_.elements = elements_;
    outcome_.bytes = elements_ * sizes_.bytes_of_pass();
    outcome_.work = moving(outcome_.bytes);
    if (!repeatable_) outcome_.verdict = "the repetitions differ from one another";
    const std::uint64_t samples = session_.sum(samples_->ranges().size());
    const std::uint64_t missing = session_.sum(feed_->missing());
    samples_->convert(source_.conversions());
    computation_->report({repeatable_, samples, missing}, outcome_);
    describe_missing(missing);
    warn_of_fill_values();
    describe(cache, outcome_);
    if (outcome_.verified == Verification::passed) {
      outcome_.verdict = fmt::format("{} sampled {} agree with their references{}", samples,
                                     computation_->sample_word(), computation_->coverage());
    }
    describe(session_, source_, sizes_, outcome_);
  }

  /// Adds the number of missing values if the data have a convention for them.
  void describe_missing(std::uint64_t missing) {
    if (!source_.declares_missing()) return;
    const auto number = static_cast<std::int64_t>(missing);
    outcome_.input.push_back({"/input", "missing", number});
    outcome_.metrics.push_back({"missing", number});
    if (missing < elements_ || session_.rank() != 0) return;
    runtime_.log.warn(fmt::format("all values of {} are missing", source_.name()));
  }

  /// The sampled ranges, and the largest element if it is known, tell whether elements equal the
  /// default fill value.
  void warn_of_fill_values() {
    if (!may_have_default_fill(runtime_.options, source_)) return;
    std::uint64_t seen = 0;
    for (std::size_t s = 0; s < samples_->ranges().size(); ++s) {
      const std::uint64_t count = samples_->ranges()[s].count;
      const std::byte* const data = samples_->data(s);
      seen += source_.type() == ElementType::f32
                  ? count_default_fill({reinterpret_cast<const float*>(data), count})
                  : count_default_fill({reinterpret_cast<const double*>(data), count});
    }
    const bool is_largest = computation_->largest() == io::default_fill_value_of_floats;
    if (seen == 0 && is_largest) seen = 1;
    count_and_warn(runtime_, source_, mine_, seen, sizes_.readers);
  }

  runtime::Runtime& runtime_;
  const ranks::Session& session_;
  io::Source& source_;
  const std::unique_ptr<Computation> computation_;
  const std::span<const io::RangeWriter> outputs_;
  const std::uint64_t elements_;
  Shards shards_{};
  Range mine_;
  pipeline::Sizes sizes_;
  std::optional<SampledRanges> samples_;
  std::optional<ShardContext> context_;
  std::optional<Digest> digest_;
  std::optional<Progress> progress_;  // of all passes
  bool repeatable_ = true;
  Outcome outcome_;
  std::optional<pipeline::Feed> feed_;  // the last member: its streams end first
};

class StreamTask : public Task {
 public:
  StreamTask(const Options& options, CreateComputation create)
      : options_(options),
        source_(io::open_source(options)),
        create_(create),
        computation_(create_(options_, *source_)) {}

  io::Origin inputs() const override {
    io::Origin origin = source_->origin();
    io::add(origin, computation().further_inputs());
    return origin;
  }
  std::string identity() const override {
    const std::string further = computation().identity();
    return io::identity_of(*source_) + (further.empty() ? "" : ", ") + further;
  }
  std::vector<OutputArray> outputs() const override { return computation().outputs(); }
  Prediction predict(measure::Machine& machine) const override {
    return stream::predict(options_, *source_, computation(), machine);
  }
  /// The run owns the computation, whose device memory must not outlive `runtime`.
  Outcome run(runtime::Runtime& runtime, const RunFiles& files) override {
    auto own = computation_ ? std::move(computation_) : create_(options_, *source_);
    return Run(runtime, *source_, std::move(own), files.outputs).execute();
  }

 private:
  Computation& computation() const {
    if (!computation_) computation_ = create_(options_, *source_);
    return *computation_;
  }

  const Options& options_;
  const std::unique_ptr<io::Source> source_;
  const CreateComputation create_;
  mutable std::unique_ptr<Computation> computation_;  // null after a run
};

}  // namespace

std::vector<std::string_view> honoured_keys() {
  return {"input.data",  "input.rows",     "input.count",
          "input.shape", "pipeline.batch", "pipeline.batches"};
}

std::unique_ptr<Task> open_task(const Options& options, CreateComputation create) {
  return std::make_unique<StreamTask>(options, create);
}

Scaled scaled(const Options& options, double factor, std::string_view) {
  if (io::names_file(options, "input.data")) return scaled_rows(options, factor);
  if (options.text("input.shape").empty()) return scaled_count(options, "input.count", factor);
  return scaled_shape(options, 0, factor);
}

}  // namespace shardstream::workloads::stream
