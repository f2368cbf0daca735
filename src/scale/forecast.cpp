#include "scale/forecast.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "core/statistics.hpp"

namespace shardstream::scale {

void Forecast::calibrate(std::uint64_t ranks, double launch, double repetition, double predicted) {
  startup_ = std::max(0.0, launch - static_cast<double>(calls_of_single_) * repetition);
  if (predicted > 0) correction_ = repetition / predicted;
  is_minimum_ = false;
  ratio_[ranks] = 1;
}

void Forecast::add(std::uint64_t ranks, double launch, double repetition, double predicted) {
  Done& done = done_[ranks];
  ++done.launches;
  done.launch += launch;
  done.repetition += repetition;
  const double expected = untried(predicted);
  if (expected > 0) ratio_[ranks] = this->launch(ranks, predicted) / expected;
}

double Forecast::untried(double predicted) const {
  const auto calls = sampling_.warmup + sampling_.repetitions.value_or(min_samples_of_interval);
  return startup_ + static_cast<double>(calls) * predicted * correction_;
}

double Forecast::ratio(std::uint64_t ranks) const {
  if (ratio_.empty()) return 1;
  const auto above = ratio_.lower_bound(ranks);
  if (above == ratio_.begin()) return above->second;
  const auto below = std::prev(above);
  if (above == ratio_.end()) return below->second;
  const auto log = [](std::uint64_t count) { return std::log(static_cast<double>(count)); };
  const double weight = (log(ranks) - log(below->first)) / (log(above->first) - log(below->first));
  return std::pow(below->second, 1 - weight) * std::pow(above->second, weight);
}

double Forecast::repetition(std::uint64_t ranks, double predicted) const {
  const auto found = done_.find(ranks);
  if (found == done_.end()) return predicted * correction_;
  return found->second.repetition / static_cast<double>(found->second.launches);
}

double Forecast::single(std::uint64_t ranks, double predicted) const {
  return startup_ + static_cast<double>(calls_of_single_) * repetition(ranks, predicted);
}

double Forecast::launch(std::uint64_t ranks, double predicted) const {
  const auto found = done_.find(ranks);
  if (found == done_.end()) return untried(predicted) * ratio(ranks);
  return found->second.launch / static_cast<double>(found->second.launches);
}

std::string suggested_limit(double seconds) {
  constexpr double reserve = 10;  // minutes
  const auto minutes = static_cast<std::uint64_t>(std::ceil(reserve + seconds / 60));
  return fmt::format("{}:{:02}:00", minutes / 60, minutes % 60);
}

}  // namespace shardstream::scale
