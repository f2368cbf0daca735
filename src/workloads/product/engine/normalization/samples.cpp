#include "workloads/product/engine/normalization/samples.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>

#include "core/error.hpp"
#include "core/shard.hpp"
#include "core/text.hpp"

namespace shardstream::workloads::product {
namespace {

bool has_no_weight(std::span<const double> weights, std::uint64_t i) {
  return !weights.empty() && weights[i] == 0;
}

std::uint64_t count_kept(std::span<const double> weights, std::uint64_t all) {
  return all - static_cast<std::uint64_t>(std::ranges::count(weights, 0.0));
}

/// The exponent e, an even number, for which the mean of the `count` weights that are not 0 is
/// between 1/2 and 8 times 2^e.
int exponent_of(std::span<const double> weights, std::uint64_t count) {
  const double largest = std::ranges::max(weights);
  double sum = 0;
  for (const double weight : weights) sum += weight / largest;
  const int exponent = std::ilogb(largest) + std::ilogb(sum / static_cast<double>(count));
  return exponent - exponent % 2;
}

/// The sums of the weights of the samples that count, and of their squares, all multiplied by
/// `unit`.
struct Sums {
  double weights = 0, squares = 0, unit = 1;
};

/// Counts the samples for which `counts` is true, and passes the factor of each sample to `use`.
template <class Counts, class Use>
Sums weigh(const Operands& operands, const Counts& counts, Samples& samples, const Use& use) {
  const std::span<const double> weights = operands.weights_of(Weights::Of::samples);
  const int exponent = weights.empty() ? 0 : exponent_of(weights, count_kept(weights, operands.k));
  Sums sums{.unit = std::ldexp(1.0, -exponent)};
  for (std::uint64_t s = 0; s < operands.k; ++s) {
    double weight = counts(s) ? 1 : 0;
    if (weight > 0 && !weights.empty()) weight = std::ldexp(weights[s], -exponent);
    use(s, std::sqrt(weight));
    samples.count += weight > 0 ? 1 : 0;
    sums.weights += weight;
    sums.squares += weight * weight;
  }
  return sums;
}

/// "[:, 7]": the position of a variable in the data set.
std::string place_of(const Operands& operands, std::uint64_t variable) {
  const io::Matrix& matrix = *operands.a;
  const bool columns = operands.transpose_a;  // variables are columns
  const io::Extents at =
      columns ? matrix.coordinates(0, variable) : matrix.coordinates(variable, 0);
  const auto& samples = columns ? matrix.dimensions().rows : matrix.dimensions().columns;
  std::vector<std::size_t> dimensions(at.size());
  std::iota(dimensions.begin(), dimensions.end(), 0);
  return fmt::format("[{}]", join(dimensions, ", ", [&](std::size_t d) {
                       const bool of_samples = std::ranges::count(samples, d) > 0;
                       return of_samples ? std::string(":") : fmt::format("{}", at[d]);
                     }));
}

/// Throws UsageError with the variables that lack the most values.
[[noreturn]] void reject_incomplete(const Operands& operands, const Samples& samples) {
  std::vector<std::uint64_t> worst;
  for (std::uint64_t v = 0; v < operands.n; ++v) {
    if (samples.missing[v] > 0 && !std::ranges::binary_search(samples.empty, v)) worst.push_back(v);
  }
  std::ranges::stable_sort(worst, std::ranges::greater{},
                           [&](std::uint64_t v) { return samples.missing[v]; });
  const std::string list = join_first(worst, 5, ", ", [&](std::uint64_t v) {
    return fmt::format("{} costs {}", place_of(operands, v), counted(samples.missing[v], "sample"));
  });
  throw UsageError(fmt::format(
      "gram.missing complete leaves no sample of {}, since each of {} lacks a value ({}): leave "
      "such variables out, or pass --gram.missing pairwise",
      operands.a->name(), counted(operands.k, "sample"), list));
}

/// The number that sums of products with these factors are divided by.
double divisor_of(const Operands& operands, const Samples& samples, Sums sums) {
  if (operands.divisor == Divisor::one) return sums.unit;
  const bool over_variables = operands.center_over_variables;
  const std::uint64_t variables =
      count_kept(operands.weights_of(Weights::Of::variables), operands.n) - samples.empty.size();
  if (over_variables) {
    sums.weights = sums.unit * static_cast<double>(variables);
    sums.squares = sums.unit * sums.weights;
  }
  if (operands.divisor == Divisor::n) return sums.weights;
  if ((over_variables ? variables : samples.count) > 1) {
    return sums.weights - sums.squares / sums.weights;
  }
  throw UsageError(fmt::format(
      "{} is {} x {}, of which only one {} counts, so gram.divisor n-1 is 0: select at least two "
      "{}s, or pass --gram.divisor n or 1",
      operands.a->name(), operands.a->rows(), operands.a->columns(),
      over_variables ? "variable" : "sample", over_variables ? "variable" : "sample"));
}

/// Sets the members that follow from the samples for which `counts` is true, except for the
/// factors, which `use` gets.
template <class Counts, class Use>
void set_sums(const Operands& operands, const Counts& counts, Samples& samples, const Use& use) {
  const auto all = static_cast<double>(operands.k);
  Sums sums{.weights = all, .squares = all};
  if (operands.has_sample_factors()) {
    sums = weigh(operands, counts, samples, use);
  } else {
    samples.count = operands.k;
  }
  if (samples.count == 0) reject_incomplete(operands, samples);
  samples.total = sums.weights;
  samples.square_total = sums.squares;
  samples.alpha = 1 / divisor_of(operands, samples, sums);
}

/// Sets all members that follow from the samples for which `counts` is true.
template <class Counts>
void set_factors(const Operands& operands, const Counts& counts, Samples& samples) {
  if (operands.has_sample_factors()) samples.factors.resize(operands.k);
  set_sums(operands, counts, samples,
           [&](std::uint64_t s, double factor) { samples.factors[s] = factor; });
}

}  // namespace

std::uint64_t host_bytes_of_samples(const Operands& operands) {
  std::uint64_t each = operands.has_sample_factors() ? sizeof(double) : 0;
  if (operands.missing == Missing::complete) each += sizeof(std::uint32_t);  // SampleScan
  if (operands.center_over_variables) {
    each +=
        sizeof(Shift) + sizeof(double) + (operands.has_whole_shifts() ? sizeof(std::int64_t) : 0);
  }
  const std::uint64_t weights = operands.weights ? operands.weights->values.size() : 0;
  return saturating_sum({saturating_product(operands.k, each), weights * sizeof(double)});
}

double alpha_of_all(const Operands& operands) {
  Samples all;
  set_sums(
      operands, [](std::uint64_t) { return true; }, all, [](std::uint64_t, double) {});
  return all.alpha;
}

Samples all_samples(const Operands& operands) {
  Samples made;
  set_factors(
      operands, [](std::uint64_t) { return true; }, made);
  return made;
}

Samples samples_of(const Operands& operands, SampleScan scan) {
  const bool completes = operands.missing == Missing::complete;
  const std::span<const double> weights = operands.weights_of(Weights::Of::variables);
  const std::uint64_t weighted = count_kept(operands.weights_of(Weights::Of::samples), operands.k);
  Samples made;
  made.missing = std::move(scan.of_variables);
  for (std::uint64_t v = 0; completes && v < operands.n; ++v) {
    if (made.missing[v] == weighted && !has_no_weight(weights, v)) made.empty.push_back(v);
  }
  if (made.empty.size() == count_kept(weights, operands.n)) {
    throw UsageError(
        fmt::format("all values of {} are missing: name other data", operands.a->name()));
  }
  for (const Shift& mean : scan.means) {
    made.shift.push_back(mean.part);
    if (operands.has_whole_shifts()) made.whole_shift.push_back(mean.whole);
  }
  set_factors(
      operands,
      [&](std::uint64_t s) { return !completes || scan.of_samples[s] == made.empty.size(); }, made);
  return made;
}

std::vector<bool> left_out(const Operands& operands, const Samples& samples) {
  const std::span<const double> weights = operands.weights_of(Weights::Of::variables);
  std::vector<bool> mask(operands.n);
  for (std::uint64_t v = 0; v < weights.size(); ++v) mask[v] = weights[v] == 0;
  for (const std::uint64_t v : samples.empty) mask[v] = true;
  return mask;
}

}  // namespace shardstream::workloads::product
