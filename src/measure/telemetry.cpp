#include "measure/telemetry.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <system_error>

#include "core/text.hpp"
#include "measure/gather.hpp"
#include "ranks/session.hpp"
#include "result/tables.hpp"

namespace shardstream::measure {
namespace {

using Time = std::chrono::steady_clock::time_point;

constexpr std::array telemetry_rows = {
    OptionRow{"measure.telemetry", OptionKind::flag, "true", "",
              "Sample each GPU's power, clocks and temperature while the work runs."},
    OptionRow{"measure.telemetry-interval", OptionKind::duration, "100ms", "10ms..1h",
              "Time between two samples; doubled each time that a long run fills the buffer."},
};

double seconds_between(Time from, Time to) {
  return std::chrono::duration<double>(to - from).count();
}

/// The samples within two times, both included.
std::span<const TelemetrySample> within(std::span<const TelemetrySample> samples, Time from,
                                        Time to) {
  const auto first = std::ranges::lower_bound(samples, from, {}, &TelemetrySample::time);
  const auto last = std::ranges::upper_bound(samples, to, {}, &TelemetrySample::time);
  return first < last ? std::span(first, last) : std::span<const TelemetrySample>();
}

/// Joules from the first sample to each one.
std::vector<double> running_energy(std::span<const TelemetrySample> samples, bool counted) {
  std::vector<double> joules = {0};
  for (std::size_t i = 1; i < samples.size(); ++i) {
    const auto& before = samples[i - 1];
    const auto& now = samples[i];
    joules.push_back(counted ? now.reading.energy - samples[0].reading.energy
                             : joules.back() + (before.reading.power + now.reading.power) / 2 *
                                                   seconds_between(before.time, now.time));
  }
  return joules;
}

/// The running sum at a time between the first and the last sample.
double value_at(std::span<const TelemetrySample> samples, const std::vector<double>& sums,
                Time time) {
  const auto after = std::ranges::upper_bound(samples, time, {}, &TelemetrySample::time);
  const auto i = static_cast<std::size_t>(std::min(after, samples.end() - 1) - samples.begin());
  const double length = seconds_between(samples[i - 1].time, samples[i].time);
  const double part = length > 0 ? seconds_between(samples[i - 1].time, time) / length : 0;
  return sums[i - 1] + part * (sums[i] - sums[i - 1]);
}

/// Keeps every second sample after the first one, with the throttling of both and the longer
/// `took`.
void merge_neighbours(std::vector<TelemetrySample>& samples) {
  std::size_t kept = 1;
  for (std::size_t i = 1; i + 1 < samples.size(); i += 2) {
    TelemetrySample merged = samples[i + 1];
    auto& reasons = merged.reading.clock_reasons;
    if (const auto earlier = samples[i].reading.clock_reasons) {
      reasons = reasons.value_or(0) | *earlier;
    }
    merged.took = std::max(merged.took, samples[i].took);
    samples[kept++] = merged;
  }
  if (samples.size() % 2 == 0) samples[kept++] = samples.back();
  samples.resize(kept);
}

/// The samples of all ranks; `zero` is this rank's second 0. Collective.
std::vector<result::GpuSample> gather_samples(const ranks::Session& session,
                                              std::span<const TelemetrySample> samples, Time zero) {
  std::vector<result::GpuSample> mine;
  for (const auto& [time, reading, took] : samples) {
    const auto& reasons = reading.clock_reasons;
    mine.push_back({.rank = session.rank(),
                    .seconds = seconds_between(zero, time),
                    .power = reading.power,
                    .sm_clock = reading.sm_clock,
                    .memory_clock = reading.memory_clock,
                    .temperature = reading.temperature,
                    .throttled = reasons ? std::int64_t{device::throttling(*reasons) != 0} : -1,
                    .clock_reasons = reasons ? device::describe_clock_reasons(*reasons) : "unknown",
                    .took = took});
  }
  return gather(session, mine);
}

/// The energy of all GPUs. For a shared GPU, the energy of its first rank is used. Collective.
Energy gather_energy(const ranks::Session& session, const Energy& mine, const std::string& gpu) {
  Energy all{.joules = 0, .counted = true};
  std::set<std::string> known;
  const auto energies = session.gather(std::vector{mine});
  const auto gpus = session.gather(gpu);
  for (std::size_t rank = 0; rank < gpus.size(); ++rank) {
    if (!known.insert(gpus[rank]).second) continue;
    all.joules += energies[rank].joules;
    all.counted = all.counted && energies[rank].counted;
  }
  return all;
}

/// "power-cap: ranks 0,1; thermal: ranks 3".
std::string list_of(const std::map<std::string, std::vector<std::size_t>>& ranks_by_reason) {
  return join(ranks_by_reason, "; ", [](const auto& reason) {
    return fmt::format("{}: ranks {}", reason.first, join(reason.second, ","));
  });
}

}  // namespace

std::span<const OptionRow> telemetry_options() {
  return telemetry_rows;
}

Energy energy_between(std::span<const TelemetrySample> samples, Time from, Time to) {
  if (within(samples, from, to).size() < 2) return {};
  if (samples.front().time > from || samples.back().time < to) return {};
  const auto counts = [](const TelemetrySample& s) { return std::isfinite(s.reading.energy); };
  const bool counted = std::ranges::all_of(samples, counts);
  const auto sums = running_energy(samples, counted);
  const double joules = value_at(samples, sums, to) - value_at(samples, sums, from);
  if (!(joules >= 0)) return {};  // the power is unknown too, or the driver was reloaded
  return {joules, counted};
}

std::optional<std::uint64_t> throttled_between(std::span<const TelemetrySample> samples, Time from,
                                               Time to) {
  std::optional<std::uint64_t> all;
  for (const auto& sample : within(samples, from, to)) {
    if (const auto reasons = sample.reading.clock_reasons) {
      all = all.value_or(0) | device::throttling(*reasons);
    }
  }
  return all;
}

Telemetry::Telemetry(std::optional<device::NvmlGpu> gpu, double interval, std::size_t max_samples)
    : gpu_(gpu), interval_(interval), max_samples_(max_samples) {}

Telemetry::~Telemetry() {
  stop();
}

void Telemetry::start() {
  stop();
  samples_.clear();
  if (!gpu_) return;
  samples_.reserve(max_samples_);
  before_ = gpu_->ecc_errors();
  stop_ = false;
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error&) {  // the work goes on without samples
  }
}

void Telemetry::stop() {
  if (!thread_.joinable()) return;
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
  sample();
  after_ = gpu_->ecc_errors();
}

std::int64_t Telemetry::new_ecc_errors() const {
  if (before_.since_load >= 0 && after_.since_load >= before_.since_load) {
    return after_.since_load - before_.since_load;
  }
  return before_.ever >= 0 && after_.ever >= before_.ever ? after_.ever - before_.ever : -1;
}

void Telemetry::run() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    lock.unlock();
    sample();
    lock.lock();
    changed_.wait_for(lock, interval_, [this] { return stop_; });
  }
}

void Telemetry::sample() {
  if (samples_.size() >= max_samples_) {
    merge_neighbours(samples_);
    interval_ *= 2;
  }
  const Time begin = std::chrono::steady_clock::now();
  const device::GpuReading reading = gpu_->read();
  samples_.push_back({begin, reading, seconds_between(begin, std::chrono::steady_clock::now())});
}

std::size_t max_samples(int ranks) {
  constexpr std::size_t all_ranks = 32768, lower = 64, upper = 4096;
  return std::clamp(all_ranks / static_cast<std::size_t>(ranks), lower, upper);
}

RunTelemetry gather_telemetry(const ranks::Session& session, const Telemetry& telemetry,
                              std::span<const Repetition> repetitions, const std::string& gpu) {
  const auto& samples = telemetry.samples();
  const bool ran = !repetitions.empty();
  const Time zero = ran ? repetitions.front().begin : Time();
  const Energy energy = ran ? energy_between(samples, zero, repetitions.back().end) : Energy();
  RunTelemetry run{.samples = gather_samples(session, samples, zero),
                   .throttled = std::vector<std::int64_t>(repetitions.size(), -1),
                   .energy = gather_energy(session, energy, gpu),
                   .warnings = {}};
  std::vector<std::optional<std::uint64_t>> mine;  // reasons for throttling, by repetition
  for (const auto& repetition : repetitions) {
    mine.push_back(throttled_between(samples, repetition.begin, repetition.end));
  }
  const auto throttled = session.gather(mine);
  const auto errors = session.gather(std::vector{telemetry.new_ecc_errors()});
  std::map<std::string, std::vector<std::size_t>> throttled_ranks;
  for (std::size_t rank = 0; rank < errors.size(); ++rank) {
    if (errors[rank] > 0) {
      run.warnings.push_back(fmt::format(
          "the GPU of rank {} had {} uncorrectable memory errors: have it checked before you trust "
          "its results",
          rank, errors[rank]));
    }
    std::uint64_t reasons = 0;
    for (std::size_t i = 0; i < repetitions.size(); ++i) {
      if (const auto mask = throttled[rank * repetitions.size() + i]) {
        run.throttled[i] = std::max(run.throttled[i], std::int64_t{*mask != 0});
        reasons |= *mask;
      }
    }
    if (reasons != 0) throttled_ranks[device::describe_clock_reasons(reasons)].push_back(rank);
  }
  if (!throttled_ranks.empty()) {
    run.warnings.push_back(
        fmt::format("GPUs were throttled in timed repetitions ({}), which makes them slower: check "
                    "their power and cooling",
                    list_of(throttled_ranks)));
  }
  return run;
}

}  // namespace shardstream::measure
