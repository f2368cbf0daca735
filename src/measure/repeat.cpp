#include "measure/repeat.hpp"

#include <algorithm>
#include <array>
#include <chrono>

namespace shardstream::measure {
namespace {

constexpr std::array rows = {
    OptionRow{"measure.warmup", OptionKind::count, "0", "0..1000000",
              "Untimed runs of the work before the timed ones."},
    OptionRow{"measure.repeat", OptionKind::count, "1", "1..1000000",
              "Timed runs of the work; the result is the same each time, or the run fails."},
    OptionRow{"measure.timeline", OptionKind::flag, "false", "",
              "Keep every span of time, in the result file and as a trace for Perfetto beside it; "
              "takes some 400 bytes of rank 0's memory for each."},
};

}  // namespace

std::span<const OptionRow> measure_options() {
  return rows;
}

std::vector<Repetition> repeat(const Options& options, const launch::Session& session,
                               Recorder& recorder, const std::function<void(bool timed)>& work) {
  using Clock = std::chrono::steady_clock;
  const std::uint64_t warmup = options.count("measure.warmup");
  const std::uint64_t timed = options.count("measure.repeat");
  std::vector<Repetition> repetitions;
  for (std::uint64_t i = 0; i < warmup + timed; ++i) {
    recorder.settle();
    session.barrier();
    const auto start = Clock::now();
    work(i >= warmup);
    const auto end = Clock::now();
    const double mine = std::chrono::duration<double>(end - start).count();
    std::vector<double> ranks = session.gather(std::vector<double>{mine});
    if (i < warmup) continue;
    const double slowest = *std::ranges::max_element(ranks);
    repetitions.push_back({slowest, std::move(ranks), start, end});
  }
  recorder.settle();
  return repetitions;
}

}  // namespace shardstream::measure
