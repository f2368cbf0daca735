#include "workloads/product/engine/normalizer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/parallel.hpp"
#include "core/shard.hpp"
#include "kernels/gemm/panel/variables.hpp"

namespace shardstream::workloads::product {
namespace {

/// 2^exponent, limited to numbers far from the ends of double's range.
double power_of_two(int exponent) {
  return std::ldexp(1.0, std::clamp(exponent, -1000, 1000));
}

/// The power of two for which deviation * power lies between 0.5 and 1 times 2^usual_exponent(); 1
/// if there is no deviation.
double power_for(double deviation, gemm::Precision precision) {
  if (!(deviation > 0) || !std::isfinite(deviation)) return 1;
  int exponent = 0;
  (void)std::frexp(deviation, &exponent);
  return power_of_two(gemm::usual_exponent(precision) - exponent);
}

/// The root of the mean square of x - from. Differences are divided by the largest one before they
/// are squared, so that no square overflows or underflows.
template <class T>
double deviation_of(const T* x, std::uint64_t samples, std::uint64_t pitch, double from) {
  double largest = 0, squares = 0;
  for (std::uint64_t s = 0; s < samples; ++s) {
    largest = std::max(largest, std::abs(static_cast<double>(x[s * pitch]) - from));
  }
  if (!(largest > 0) || !std::isfinite(largest)) return 0;
  for (std::uint64_t s = 0; s < samples; ++s) {
    const double part = (static_cast<double>(x[s * pitch]) - from) / largest;
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

/// Normalizes one variable. `pitch`: elements from one sample to the next. `shift` null: nothing is
/// subtracted.
template <class T>
void normalize(const T* x, std::uint64_t samples, std::uint64_t pitch, gemm::Precision precision,
               double* shift, double& scale) {
  const auto first = static_cast<double>(x[0]);
  double sum = 0;
  for (std::uint64_t s = 0; s < samples; ++s) sum += static_cast<double>(x[s * pitch]) - first;
  const double mean = sum / static_cast<double>(samples);
  const double deviation = deviation_of(x, samples, pitch, shift != nullptr ? first + mean : 0);
  if (shift != nullptr) *shift = rounded_shift(first, mean, deviation);
  scale = power_for(deviation, precision);
}

}  // namespace

Normalization normalization_of(const Operands& operands, const std::byte* stored,
                               std::uint64_t variables, std::uint64_t samples) {
  const bool rows = !operands.transpose_a;  // variables
  Normalization made;
  if (operands.center) made.shift.resize(variables);
  made.scale.resize(variables);
  with_element_type(operands.a->type(), [&](auto tag) {
    const auto* const x = reinterpret_cast<const typename decltype(tag)::type*>(stored);
    for (std::uint64_t v = 0; v < variables; ++v) {
      normalize(x + v * (rows ? samples : 1), samples, rows ? 1 : variables, operands.precision,
                operands.center ? &made.shift[v] : nullptr, made.scale[v]);
    }
  });
  return made;
}

void Normalizer::load() {
  first_ = from_first_samples();
  loaded_ = true;
}

/// Each rank reads the first samples of some variables.
Normalization Normalizer::from_first_samples() const {
  constexpr std::uint64_t step = 1024;
  const auto rank = static_cast<std::uint64_t>(runtime_.session.rank());
  const auto ranks = static_cast<std::uint64_t>(runtime_.session.size());
  const io::Matrix& matrix = *operands_.a;
  const std::uint64_t samples = std::min(operands_.k, first_samples);
  const Range own = share(operands_.n, rank, ranks);
  std::vector<double> shift(operands_.center ? own.count : 0), scale(own.count);
  parallel_for(ceil_div(own.count, step), readers_, [&](std::uint64_t number) {
    const std::uint64_t first = number * step;
    const Range some = intersection({own.first + first, step}, {0, own.end()});
    const Range rows = operands_.transpose_a ? Range{0, samples} : some;
    const Range columns = operands_.transpose_a ? some : Range{0, samples};
    const std::size_t row_bytes = columns.count * size_of(matrix.type());
    std::vector<std::byte> stored(rows.count * row_bytes);
    matrix.read(rows, columns, stored.data(), row_bytes);
    const Normalization made = normalization_of(operands_, stored.data(), some.count, samples);
    std::ranges::copy(made.shift, shift.begin() + static_cast<std::ptrdiff_t>(first));
    std::ranges::copy(made.scale, scale.begin() + static_cast<std::ptrdiff_t>(first));
    runtime_.session.heartbeat().move();
  });
  return {runtime_.session.gather(shift), runtime_.session.gather(scale)};
}

void Normalizer::run(Engine& product) {
  if (!loaded_) first_ = from_first_samples();
  product.normalize(first_);
  product.run();
  const std::vector<Renormalization> others = runtime_.session.gather(unsuitable(product));
  Normalization second = first_;
  std::vector<bool> changed(operands_.n);
  // Ranks that have the same variable agree on it.
  for (const Renormalization& other : others) {
    if (operands_.center) second.shift[other.variable] = other.shift;
    second.scale[other.variable] = other.scale;
    changed[other.variable] = true;
  }
  renormalized_ = static_cast<std::uint64_t>(std::ranges::count(changed, true));
  if (renormalized_ == 0) return;
  if (runtime_.session.rank() == 0) {
    runtime_.log.warn(fmt::format(
        "{} a mean (by more than 4 standard deviations) or a standard deviation that differs from "
        "that of the first {} samples: all data are read a second time, with better shifts and "
        "factors",
        renormalized_ == 1 ? "1 variable has" : fmt::format("{} variables have", renormalized_),
        first_samples));
  }
  second.final = true;
  product.normalize(second);
  product.run();
}

/// This rank's variables that need a second pass.
std::vector<Normalizer::Renormalization> Normalizer::unsuitable(Engine& product) const {
  const VariableSums::Totals totals = product.variable_totals();
  const auto samples = static_cast<double>(operands_.k);
  std::vector<Renormalization> others;
  const std::uint64_t variables = std::min<std::uint64_t>(operands_.n, totals.sums.size());
  for (std::uint64_t v = 0; v < variables; ++v) {
    const double sum = totals.sums[v], squares = totals.squares[v];
    if (gemm::is_settled(operands_.precision, sum, squares, samples, operands_.center)) continue;
    const double about =
        operands_.center ? gemm::squares_about_mean(sum, squares, samples) : squares;
    const double scale = first_.scale[v];
    Renormalization other{.variable = v, .shift = 0, .scale = scale};
    if (operands_.center) other.shift = first_.shift[v] + sum / samples / scale;
    if (about > 0) other.scale = power_for(std::sqrt(about / samples) / scale, operands_.precision);
    others.push_back(other);
  }
  return others;
}

}  // namespace shardstream::workloads::product
