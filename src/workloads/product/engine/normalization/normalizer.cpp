#include "workloads/product/engine/normalization/normalizer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <iterator>
#include <type_traits>
#include <utility>

#include "core/parallel.hpp"
#include "core/shard.hpp"
#include "core/text.hpp"
#include "kernels/gemm/panel/shifted.hpp"
#include "kernels/gemm/panel/variables.hpp"
#include "workloads/product/engine/normalization/sample_scan.hpp"
#include "workloads/product/engine/normalization/variable_ranges.hpp"

namespace shardstream::workloads::product {
namespace {

/// 2^exponent, limited to numbers far from the ends of double's range.
double power_of_two(int exponent) {
  return std::ldexp(1.0, std::clamp(exponent, -1000, 1000));
}

/// The power of two for which deviation * power lies between 0.5 and 1 times 2^exponent; 1 if there
/// is no deviation.
double power_for(double deviation, int exponent) {
  if (!(deviation > 0) || !std::isfinite(deviation)) return 1;
  int own = 0;
  (void)std::frexp(deviation, &own);
  return power_of_two(exponent - own);
}

/// The number that is subtracted from samples before they become doubles: the first sample if some
/// are integers beyond 2^53, which doubles do not hold, else 0.
template <class T>
T origin_of(const T* x, std::uint64_t samples, std::uint64_t pitch) {
  constexpr std::int64_t exact = std::int64_t{1} << 53;
  if constexpr (std::is_same_v<T, std::int64_t>) {
    for (std::uint64_t s = 0; s < samples; ++s) {
      if (x[s * pitch] < -exact || x[s * pitch] > exact) return x[0];
    }
  }
  return T{};
}

double from_origin(std::int64_t x, std::int64_t origin) {
  return gemm::difference(x, origin);
}
template <class T>
double from_origin(T x, T) {
  return static_cast<double>(x);
}

/// The root of the mean square of value(s) - from. Differences are divided by the largest one
/// before they are squared, so that no square overflows or underflows.
template <class Value>
double deviation_of(std::uint64_t samples, const Value& value, double from) {
  double largest = 0, squares = 0;
  for (std::uint64_t s = 0; s < samples; ++s) {
    largest = std::max(largest, std::abs(value(s) - from));
  }
  if (!(largest > 0) || !std::isfinite(largest)) return 0;
  for (std::uint64_t s = 0; s < samples; ++s) {
    const double part = (value(s) - from) / largest;
    squares += part * part;
  }
  return largest * std::sqrt(squares / static_cast<double>(samples));
}

/// The first sample plus the mean of all differences from it, which is rounded to a power of two
/// between an eighth and a quarter of the deviation.
double rounded_shift(double first, double mean, double deviation) {
  if (!(deviation > 0) || !std::isfinite(deviation)) return first + mean;
  int exponent = 0;
  (void)std::frexp(deviation, &exponent);
  const double unit = power_of_two(exponent - 3);
  return first + std::nearbyint(mean / unit) * unit;
}

/// The mean of value(s) - first; 0 if the sum of finite values overflows. The shift is then
/// unsuitable, but finite.
template <class Value>
double mean_from(double first, std::uint64_t samples, const Value& value) {
  double sum = 0;
  bool are_finite = true;
  for (std::uint64_t s = 0; s < samples; ++s) {
    sum += value(s) - first;
    are_finite = are_finite && std::isfinite(value(s));
  }
  return are_finite && !std::isfinite(sum) ? 0 : sum / static_cast<double>(samples);
}

/// Normalizes one variable. `pitch`: elements from one sample to the next. `shift` null: nothing is
/// subtracted.
template <class T>
void normalize(const T* x, std::uint64_t samples, std::uint64_t pitch, gemm::Precision precision,
               Shift* shift, double& scale) {
  const T origin = shift != nullptr ? origin_of(x, samples, pitch) : T{};
  const auto value = [&](std::uint64_t s) { return from_origin(x[s * pitch], origin); };
  const double first = value(0);
  const double mean = mean_from(first, samples, value);
  const double deviation = deviation_of(samples, value, shift != nullptr ? first + mean : 0);
  scale = power_for(deviation, gemm::range_of(precision).usual_exponent);
  if (shift == nullptr) return;
  const double from = rounded_shift(first, mean, deviation);
  if constexpr (std::is_same_v<T, std::int64_t>) {
    *shift = integer_shift(origin, from);
  } else {
    *shift = {0, from};
  }
}

/// The samples of a variable that have a value. NaN is a missing value.
template <class T>
std::vector<T> values_of(const T* x, std::uint64_t samples, std::uint64_t pitch) {
  std::vector<T> values;
  for (std::uint64_t s = 0; s < samples; ++s) {
    if (x[s * pitch] == x[s * pitch]) values.push_back(x[s * pitch]);
  }
  return values;
}

void set(Normalization& normalization, std::uint64_t variable, const Shift& shift, double scale) {
  if (!normalization.shift.empty()) normalization.shift[variable] = shift.part;
  if (!normalization.whole.empty()) normalization.whole[variable] = shift.whole;
  normalization.scale[variable] = scale;
}

/// The scale of one variable whose samples have the shifts `shifts`.
template <class T>
double scale_of_shifted(const T* x, std::span<const Shift> shifts, std::uint64_t pitch,
                        gemm::Precision precision) {
  const auto value = [&](std::uint64_t s) {
    if constexpr (std::is_same_v<T, std::int64_t>) {
      return gemm::difference(x[s * pitch], shifts[s].whole) - shifts[s].part;
    } else {
      return static_cast<double>(x[s * pitch]) - shifts[s].part;
    }
  };
  return power_for(deviation_of(shifts.size(), value, 0), gemm::range_of(precision).usual_exponent);
}

/// The smallest power of two that no factor exceeds; 1 without factors.
double bound_of(std::span<const double> factors) {
  if (factors.empty()) return 1;
  int exponent = 0;
  const double part = std::frexp(std::ranges::max(factors), &exponent);
  return std::ldexp(1.0, part == 0.5 ? exponent - 1 : exponent);
}

/// The distinct values in ascending order.
std::vector<std::uint64_t> distinct(std::vector<std::uint64_t> values) {
  std::ranges::sort(values);
  const auto rest = std::ranges::unique(values);
  values.erase(rest.begin(), rest.end());
  return values;
}

}  // namespace

Normalization normalization_of(const Operands& operands, const std::byte* stored,
                               std::uint64_t variables, std::uint64_t samples,
                               std::span<const Shift> sample_shifts) {
  const bool rows = !operands.transpose_a;  // variables
  Normalization made;
  made.scale.resize(variables);
  if (operands.center) made.shift.resize(variables);
  with_element_type(operands.a->type(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (operands.center && operands.has_whole_shifts()) made.whole.resize(variables);
    for (std::uint64_t v = 0; v < variables; ++v) {
      const T* const x = reinterpret_cast<const T*>(stored) + v * (rows ? samples : 1);
      const std::uint64_t pitch = rows ? 1 : variables;
      Shift shift;
      double scale = operands.pairwise() ? 0 : 1;
      Shift* const centred = operands.center ? &shift : nullptr;
      if (operands.pairwise()) {
        const std::vector<T> values = values_of(x, samples, pitch);
        if (!values.empty()) {
          normalize(values.data(), values.size(), 1, operands.precision, centred, scale);
        }
      } else if (sample_shifts.empty()) {
        normalize(x, samples, pitch, operands.precision, centred, scale);
      } else {
        scale = scale_of_shifted(x, sample_shifts, pitch, operands.precision);
      }
      set(made, v, shift, scale);
    }
  });
  return made;
}

Normalizer::Normalizer(runtime::Runtime& runtime, const Operands& operands, unsigned readers)
    : runtime_(runtime),
      operands_(operands),
      readers_(readers),
      samples_(all_samples(operands)),
      knows_samples_(!operands.center_over_variables &&
                     (operands.missing != Missing::complete || !may_lack_values(operands))) {}

void Normalizer::find_samples() {
  if (knows_samples_) return;
  SampleScan scan = scan_samples(runtime_, operands_, readers_);
  runtime_.session.collectively([&] { samples_ = samples_of(operands_, std::move(scan)); });
  knows_samples_ = true;
}

void Normalizer::load() {
  first_ = first_pass();
  loaded_ = true;
}

/// The normalization of the first pass. If values of the first samples are missing, the samples
/// that count are found first.
Normalization Normalizer::first_pass() {
  if (operands_.center_over_variables) find_samples();
  First first = from_first_samples();
  if (first.lacks_values && !knows_samples_) {
    find_samples();
    first = from_first_samples();
  }
  first.normalization.samples = &samples_;
  const std::vector<bool> mask = left_out(operands_, samples_);
  for (std::uint64_t v = 0; v < operands_.n; ++v) {
    if (mask[v]) set(first.normalization, v, {}, 0);
  }
  return first.normalization;
}

/// Reads the first samples of some variables. In a pairwise product it reads group by group, until
/// each variable has a value or the groups end. The result for a variable does not depend on the
/// others.
Normalization Normalizer::from_first_samples(Range variables,
                                             std::atomic<bool>& lacks_values) const {
  const std::uint64_t groups = operands_.pairwise() ? max_groups : 1;
  Normalization found;
  for (std::uint64_t group = 0; group < groups; ++group) {
    const FirstSamples samples(samples_, operands_.k, group * first_samples);
    if (samples.count() == 0) break;
    const std::vector<std::byte> stored = samples.read(operands_, variables);
    if (any_missing(operands_.a->type(), stored)) lacks_values = true;
    const Normalization made = normalization_of(operands_, stored.data(), variables.count,
                                                samples.count(), samples.shifts());
    if (group == 0) found = made;
    for (std::uint64_t v = 0; v < variables.count && group > 0; ++v) {
      if (found.scale[v] == 0) set(found, v, shift_of(made, v), made.scale[v]);
    }
    if (std::ranges::count(found.scale, 0) == 0) break;
  }
  std::ranges::replace(found.scale, 0, 1);
  return found;
}

/// Each rank reads the first samples of some variables.
Normalizer::First Normalizer::from_first_samples() const {
  constexpr std::uint64_t step = 1024;
  const auto rank = static_cast<std::uint64_t>(runtime_.session.rank());
  const auto ranks = static_cast<std::uint64_t>(runtime_.session.size());
  const Range own = share(operands_.n, rank, ranks);
  Normalization mine;
  mine.scale.resize(own.count);
  if (operands_.center) mine.shift.resize(own.count);
  if (operands_.center && operands_.has_whole_shifts()) mine.whole.resize(own.count);
  std::atomic<bool> lacks_values = false;
  parallel_for(ceil_div(own.count, step), readers_, [&](std::uint64_t number) {
    const std::uint64_t first = number * step;
    const Range some = intersection({own.first + first, step}, {0, own.end()});
    const Normalization made = from_first_samples(some, lacks_values);
    const auto place = static_cast<std::ptrdiff_t>(first);
    std::ranges::copy(made.shift, mine.shift.begin() + place);
    std::ranges::copy(made.whole, mine.whole.begin() + place);
    std::ranges::copy(made.scale, mine.scale.begin() + place);
    runtime_.session.heartbeat().move();
  });
  return {{runtime_.session.gather(mine.shift), runtime_.session.gather(mine.whole),
           runtime_.session.gather(mine.scale)},
          runtime_.session.max(lacks_values ? 1 : 0) > 0};
}

void Normalizer::run(Engine& product) {
  if (!loaded_) first_ = first_pass();
  Normalization now = first_;
  std::vector<bool> changed(operands_.n);
  renormalized_ = 0;
  for (passes_ = 1;; ++passes_) {
    now.final = passes_ == max_passes;
    now.is_provisional = !knows_samples_;
    product.normalize(now);
    product.run();
    if (now.is_provisional && passes_ == 1 && found_missing_values(product)) {
      if (loaded_) load();
      return run(product);
    }
    if (now.final) return;
    const std::vector<Renormalization> others = unsuitable(product, now);
    if (others.empty()) return;
    std::vector<std::uint64_t> variables;
    for (const Renormalization& other : others) {
      set(now, other.variable, other.shift, other.scale);
      variables.push_back(other.variable);
      changed[other.variable] = true;
    }
    renormalized_ = static_cast<std::uint64_t>(std::ranges::count(changed, true));
    if (runtime_.session.rank() == 0) warn(distinct(std::move(variables)).size());
  }
}

/// After a pass that has assumed that no value is missing: finds the samples that count if the sums
/// of a variable are NaN. Otherwise the assumption was right. Returns whether some samples are left
/// out, so that the pass was in vain.
bool Normalizer::found_missing_values(Engine& product) {
  const VariableSums::Totals totals = product.variable_totals();
  double has_nan = 0;
  for (std::uint64_t v = 0; v < std::min<std::uint64_t>(operands_.n, totals.sums.size()); ++v) {
    if (totals.present[v] && std::isnan(totals.squares[v])) has_nan = 1;
  }
  if (runtime_.session.max(has_nan) == 0) {
    knows_samples_ = true;  // nothing is missing
    return false;
  }
  const std::uint64_t before = samples_.count;
  find_samples();
  if (samples_.count == before) return false;
  if (runtime_.session.rank() == 0) {
    runtime_.log.info(fmt::format(
        "values are missing in {} of {}, but in none of the first {}: all data are read again "
        "without these samples",
        before - samples_.count, counted(before, "sample"), first_samples));
  }
  return true;
}

void Normalizer::warn(std::uint64_t variables) const {
  runtime_.log.warn(fmt::format(
      "{} a mean (by more than 4 standard deviations) or a standard deviation that differs from "
      "that of the first {} samples: all data are read a {} time, with better shifts and factors",
      variables == 1 ? "1 variable has" : fmt::format("{} variables have", variables),
      first_samples, passes_ == 1 ? "second" : "third"));
}

/// The variables that need another pass, the same on all ranks. Several ranks may have the same
/// variable; they agree on it.
std::vector<Normalizer::Renormalization> Normalizer::unsuitable(Engine& product,
                                                                const Normalization& now) const {
  const VariableSums::Totals totals = product.variable_totals();
  const std::vector<bool> vanished = lost(product, totals);
  std::vector<Renormalization> mine;
  std::vector<std::uint64_t> without_sums;
  const std::uint64_t variables = std::min<std::uint64_t>(operands_.n, totals.sums.size());
  for (std::uint64_t v = 0; v < variables; ++v) {
    if (!totals.present[v]) continue;
    const double sum = totals.sums[v], squares = totals.squares[v];
    if (vanished[v] || std::isinf(squares)) {
      without_sums.push_back(v);
    } else if (!gemm::is_settled(gemm::range_of(operands_.precision), sum, squares,
                                 totals.counts[v], operands_.center)) {
      mine.push_back(from_sums(v, totals, now));
    }
  }
  std::vector<Renormalization> all = runtime_.session.gather(mine);
  std::ranges::copy(from_ranges(distinct(runtime_.session.gather(without_sums))),
                    std::back_inserter(all));
  return all;
}

Normalizer::Renormalization Normalizer::from_sums(std::uint64_t variable,
                                                  const VariableSums::Totals& totals,
                                                  const Normalization& now) const {
  const double sum = totals.sums[variable], squares = totals.squares[variable],
               samples = totals.counts[variable];
  const double about = operands_.center ? gemm::squares_about_mean(sum, squares, samples) : squares;
  const double scale = now.scale[variable];
  Renormalization made{.variable = variable, .shift = {}, .scale = scale};
  if (operands_.center) {
    made.shift =
        moved(shift_of(now, variable), sum / samples / scale, operands_.has_whole_shifts());
  }
  if (about > 0) {
    made.scale = power_for(std::sqrt(about / samples) / scale,
                           gemm::range_of(operands_.precision).usual_exponent);
  }
  return made;
}

/// The variables whose values have all become 0, although one of them is not equal to the shift;
/// the same on all ranks. A rank knows the sums of its own variables only, and Panels::lost() only
/// for the samples that it uploaded. So the ranks exchange both.
std::vector<bool> Normalizer::lost(Engine& product, const VariableSums::Totals& totals) const {
  std::vector<std::uint64_t> zero, mine;
  for (std::uint64_t v = 0; v < std::min<std::uint64_t>(operands_.n, totals.squares.size()); ++v) {
    if (totals.present[v] && totals.squares[v] == 0) zero.push_back(v);
  }
  zero = distinct(runtime_.session.gather(zero));
  std::vector<bool> made(operands_.n);
  if (zero.empty()) return made;
  const std::vector<std::uint8_t> lost = product.lost_variables();
  for (const std::uint64_t v : zero) {
    if (v < lost.size() && lost[v] != 0) mine.push_back(v);
  }
  for (const std::uint64_t v : runtime_.session.gather(mine)) made[v] = true;
  return made;
}

std::vector<Normalizer::Renormalization> Normalizer::from_ranges(
    const std::vector<std::uint64_t>& variables) const {
  const double factor = bound_of(samples_.factors);
  const auto ranges = variable_ranges(runtime_, operands_, samples_, variables, readers_);
  std::vector<Renormalization> made;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const VariableRange& range = ranges[i];
    made.push_back({.variable = variables[i],
                    .shift = range.middle,
                    .scale = power_for(operands_.center ? range.half : range.largest,
                                       gemm::range_of(operands_.precision).extreme_exponent) /
                             factor});
  }
  return made;
}

}  // namespace shardstream::workloads::product
