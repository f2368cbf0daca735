#include "study/laws/least_squares.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <span>

#include "core/error.hpp"
#include "study/statistics/distributions.hpp"

namespace shardstream::study {
namespace {

using Vector = std::array<double, 3>;
using Matrix = std::array<Vector, 3>;

double dot(const Vector& a, const Vector& b) {
  return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

/// The part of one size in the fit. Quantities are divided by `scale`, the standard deviation of a
/// launch.
struct Group {
  const Size* size;
  Vector basis;
  double n = 0, mean = 0, scale = 0;
};

std::vector<Group> grouped(const LinearLaw& law, const Study& study) {
  std::map<int, std::vector<double>> quantities;
  for (const MeasuredLaunch& launch : study.launches) {
    quantities[launch.ranks].push_back(law.quantity(launch));
  }
  std::vector<Group> groups;
  for (std::size_t i = 0; i < study.sizes.size(); ++i) {
    const Size& size = study.sizes[i];
    const std::vector<double>& values = quantities[size.ranks];
    const double q = static_cast<double>(size.ranks) / study.anchor;
    Group group{.size = &size, .basis = law.basis(q)};
    group.n = static_cast<double>(values.size());
    for (const double value : values) group.mean += value / group.n;
    group.scale = group.mean * std::sqrt(study.scatter.fitted_at(i));
    groups.push_back(group);
  }
  return groups;
}

/// Q R of the scaled basis, one row a size, by modified Gram-Schmidt: normal equations would square
/// the condition of p^2.
struct Factors {
  std::vector<Vector> q;
  Matrix r{};
};

Factors factorize(std::span<const Group> groups, int parameters) {
  Factors factors;
  for (const Group& group : groups) {
    Vector row{};
    for (int k = 0; k < parameters; ++k) {
      row[k] = group.basis[k] * std::sqrt(group.n) / group.scale;
    }
    factors.q.push_back(row);
  }
  for (int k = 0; k < parameters; ++k) {
    for (int j = 0; j < k; ++j) {
      double& product = factors.r[j][k];
      for (const Vector& row : factors.q) product += row[j] * row[k];
      for (Vector& row : factors.q) row[k] -= product * row[j];
    }
    double squares = 0;
    for (const Vector& row : factors.q) squares += row[k] * row[k];
    factors.r[k][k] = std::sqrt(squares);
    for (Vector& row : factors.q) row[k] /= factors.r[k][k];
  }
  return factors;
}

/// Solves R x = y.
Vector back_substitute(const Matrix& r, Vector y, int parameters) {
  for (int k = parameters - 1; k >= 0; --k) {
    for (int j = k + 1; j < parameters; ++j) y[k] -= r[k][j] * y[j];
    y[k] /= r[k][k];
  }
  return y;
}

Estimate around(double value, double standard_error, double t) {
  const double half = t * standard_error;
  return {.value = value,
          .standard_error = standard_error,
          .interval = Interval{value - half, value + half}};
}

double largest(std::span<const Residual> residuals) {
  double largest = 0;
  for (const Residual& each : residuals) largest = std::max(largest, std::abs(each.relative));
  return largest;
}

/// `lack` is the sum of squares of the sizes' means around the law, in units of their variance.
Fit judge(double lack, double lack_df, double pure_df, std::span<const Residual> residuals) {
  // Times at the ends of a double's range have no finite sum of squares: nothing is tested then.
  if (lack_df <= 0 || pure_df <= 0 || !std::isfinite(lack)) return {};
  Fit fit;
  fit.f = lack / lack_df;
  fit.p_value = fisher_f_p_value(fit.f, lack_df, pure_df);
  const double off = largest(residuals);
  if (fit.p_value < test_level && off > min_relevant) {
    fit.verdict = FitVerdict::does_not_fit;
  } else {
    fit.verdict = off <= max_error_of_fit ? FitVerdict::fits : FitVerdict::unclear;
  }
  return fit;
}

}  // namespace

Estimate LinearFit::estimate(double value, const std::array<double, 3>& gradient) const {
  return estimate(value, changes(gradient));
}

std::vector<double> LinearFit::changes(const std::array<double, 3>& gradient) const {
  std::vector<double> changes;
  for (const Vector& gain : gains_) changes.push_back(dot(gain, gradient));
  return changes;
}

Estimate LinearFit::estimate(double value, std::span<const double> changes,
                             std::optional<double> launch_on) const {
  std::vector<double> weights(changes.size());
  if (launch_on) weights = scatter_.of_launch(*launch_on);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    weights[i] = inflation * (weights[i] * value * value + changes[i] * changes[i] / launches_[i]);
  }
  const Noise noise = scatter_.of(weights);
  if (noise.df == 0) return {.value = value};
  return around(value, std::sqrt(noise.variance), students_t_95(noise.df));
}

LinearFit fit_linear(const LinearLaw& law, const Study& study) {
  expect(study.sizes.size() >= static_cast<std::size_t>(law.parameters),
         "a law needs as many sizes as parameters");
  const std::vector<Group> groups = grouped(law, study);
  const Factors factors = factorize(groups, law.parameters);
  LinearFit fit;
  fit.parameters = law.parameters;
  fit.scatter_ = study.scatter;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    Vector scaled = factors.q[i];
    for (double& each : scaled) each *= groups[i].mean * std::sqrt(groups[i].n) / groups[i].scale;
    fit.gains_.push_back(back_substitute(factors.r, scaled, law.parameters));
    fit.launches_.push_back(groups[i].n);
    for (int k = 0; k < law.parameters; ++k) fit.values[k] += fit.gains_[i][k];
  }
  double lack = 0, spread = 0;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const Group& group = groups[i];
    const double off = (group.mean - dot(fit.values, group.basis)) / group.mean;
    fit.residuals.push_back({group.size->ranks, off});
    const double fitted = study.scatter.fitted_at(i), own = group.size->noise.variance;
    lack += group.n * off * off / std::max(fitted, own);
    spread += group.n * off * off / std::max(own, min_scatter * min_scatter);
  }
  const double lack_df = static_cast<double>(groups.size()) - law.parameters;
  const double pure_df = static_cast<double>(study.launches.size() - groups.size());
  fit.fit = judge(lack, lack_df, pure_df, fit.residuals);
  if (pure_df > 0) fit.inflation = std::max(1.0, (spread + pure_df) / (pure_df + lack_df));
  return fit;
}

}  // namespace shardstream::study
