#include "study/least_squares.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <span>

#include "core/error.hpp"
#include "study/distributions.hpp"

namespace shardstream::study {
namespace {

using Vector = std::array<double, 3>;
using Matrix = std::array<Vector, 3>;

double dot(const Vector& a, const Vector& b) {
  return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

/// The part of one size in the fit. Quantities are divided by `scale`, the standard deviation of a
/// launch in units of the study's relative scatter.
struct Group {
  const Size* size;
  Vector basis;
  double scale = 0;
  double n = 0, mean = 0;
  double pure_squares = 0;  ///< of launches around the mean, scaled
};

std::vector<Group> grouped(const LinearLaw& law, const Study& study) {
  std::map<int, std::vector<double>> quantities;
  for (const Launch& launch : study.launches) {
    quantities[launch.ranks].push_back(law.quantity(launch));
  }
  std::vector<Group> groups;
  for (const Size& size : study.sizes) {
    const std::vector<double>& values = quantities[size.ranks];
    Group group{.size = &size, .basis = law.basis(size.ranks)};
    group.n = static_cast<double>(values.size());
    for (const double value : values) group.mean += value / group.n;
    group.scale = group.mean;
    if (size.noisier) {
      const double floor = min_scatter * min_scatter;
      group.scale *= std::sqrt(size.noise.variance / std::max(study.noise.variance, floor));
    }
    for (const double value : values) {
      group.pure_squares += std::pow((value - group.mean) / group.scale, 2);
    }
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

/// (R^T R)^-1
Matrix inverse_gram(const Matrix& r, int parameters) {
  Matrix gram{};
  for (int k = 0; k < parameters; ++k) {
    Vector unit{};
    unit[k] = 1;
    const Vector column = back_substitute(r, unit, parameters);
    for (int i = 0; i < parameters; ++i) {
      for (int j = 0; j < parameters; ++j) gram[i][j] += column[i] * column[j];
    }
  }
  return gram;
}

Estimate around(double value, double standard_error, double t) {
  const double half = t * standard_error;
  return {.value = value,
          .standard_error = standard_error,
          .interval = Interval{value - half, value + half}};
}

Fit lack_of_fit(double lack, double lack_df, double pure, double pure_df,
                std::span<const Residual> residuals) {
  if (lack_df <= 0 || pure_df <= 0) return {};
  const double error = std::max(pure / pure_df, min_scatter * min_scatter);
  Fit fit;
  fit.f = lack / lack_df / error;
  fit.p_value = fisher_f_p_value(fit.f, lack_df, pure_df);
  const bool is_relevant = std::ranges::any_of(
      residuals, [](const Residual& each) { return std::abs(each.relative) > min_relevant; });
  fit.verdict = fit.p_value < test_level && is_relevant ? Verdict::does_not_fit : Verdict::fits;
  return fit;
}

}  // namespace

double LinearFit::variance_of(const std::array<double, 3>& gradient) const {
  double squares = 0;
  for (int k = 0; k < parameters; ++k) squares += gradient[k] * dot(covariance[k], gradient);
  return squares;
}

Estimate LinearFit::estimate(double value, const std::array<double, 3>& gradient) const {
  return df == 0 ? Estimate{.value = value} : around(value, std::sqrt(variance_of(gradient)), t);
}

Estimate LinearFit::estimate_launch(double value, const std::array<double, 3>& gradient,
                                    const Noise& own) const {
  if (df == 0) return {.value = value};
  const double relative = own.df > 0 ? own.variance : variance;
  return around(value, std::sqrt(variance_of(gradient) + relative * value * value),
                own.df > 0 ? students_t_95(std::min(df, own.df)) : t);
}

LinearFit fit_linear(const LinearLaw& law, const Study& study) {
  expect(study.sizes.size() >= static_cast<std::size_t>(law.parameters),
         "a law needs as many sizes as parameters");
  const std::vector<Group> groups = grouped(law, study);
  const Factors factors = factorize(groups, law.parameters);
  Vector projected{};
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const double y = groups[i].mean * std::sqrt(groups[i].n) / groups[i].scale;
    for (int k = 0; k < law.parameters; ++k) projected[k] += factors.q[i][k] * y;
  }
  LinearFit fit;
  fit.parameters = law.parameters;
  fit.values = back_substitute(factors.r, projected, law.parameters);
  double lack = 0, pure = 0;
  for (const Group& group : groups) {
    const double off = group.mean - dot(fit.values, group.basis);
    fit.residuals.push_back({group.size->ranks, off / group.mean});
    lack += group.n * off * off / (group.scale * group.scale);
    pure += group.pure_squares;
  }
  const auto runs = static_cast<double>(study.launches.size());
  const auto sizes = static_cast<double>(groups.size());
  fit.fit = lack_of_fit(lack, sizes - law.parameters, pure, runs - sizes, fit.residuals);
  if (runs == sizes) return fit;  // no launch is repeated: the noise is unknown
  fit.df = runs - law.parameters;
  fit.variance = (lack + pure) / fit.df;
  fit.t = students_t_95(fit.df);
  fit.covariance = inverse_gram(factors.r, law.parameters);
  for (Vector& row : fit.covariance) {
    for (double& entry : row) entry *= fit.variance;
  }
  return fit;
}

}  // namespace shardstream::study
