#include "scale/forecast.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/statistics.hpp"

namespace shardstream::scale {

void Forecast::calibrate(double launch, double repetition, double predicted) {
  startup_ = std::max(0.0, launch - static_cast<double>(calls_of_single_) * repetition);
  if (predicted > 0) correction_ = repetition / predicted;
  is_minimum_ = false;
}

void Forecast::add(std::uint64_t ranks, double launch, double predicted) {
  done_[ranks].push_back(launch);
  took_ += launch;
  untried_ += untried(predicted);
}

double Forecast::untried(double predicted) const {
  const auto calls = sampling_.warmup + sampling_.repetitions.value_or(min_samples_of_interval);
  return start_and(calls, predicted);
}

double Forecast::start_and(std::uint64_t repetitions, double predicted) const {
  return startup_ + static_cast<double>(repetitions) * repetition(predicted);
}

double Forecast::single(double predicted) const {
  return start_and(calls_of_single_, predicted);
}

double Forecast::launch(std::uint64_t ranks, double predicted) const {
  if (const auto found = done_.find(ranks); found != done_.end()) {
    const std::vector<double>& times = found->second;
    return std::accumulate(times.begin(), times.end(), 0.0) / static_cast<double>(times.size());
  }
  return untried(predicted) * (untried_ > 0 ? took_ / untried_ : 1);
}

std::string suggested_limit(double seconds) {
  constexpr double reserve = 10;  // minutes
  const auto minutes = static_cast<std::uint64_t>(std::ceil(reserve + seconds / 60));
  return fmt::format("{}:{:02}:00", minutes / 60, minutes % 60);
}

}  // namespace shardstream::scale
