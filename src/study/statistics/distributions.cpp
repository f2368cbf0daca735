#include "study/statistics/distributions.hpp"

#include <boost/math/distributions/fisher_f.hpp>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>

#include "core/error.hpp"

namespace shardstream::study {

namespace math = boost::math;

double students_t_95(double df) {
  expect(df > 0, "Student's t needs a degree of freedom");
  return math::quantile(math::students_t(df), 0.975);
}

double students_t_p_value(double t, double df) {
  expect(df > 0, "Student's t needs a degree of freedom");
  return 2 * math::cdf(math::complement(math::students_t(df), std::abs(t)));
}

double fisher_f_p_value(double f, double df_numerator, double df_denominator) {
  expect(df_numerator > 0 && df_denominator > 0, "Fisher's F needs degrees of freedom");
  return math::cdf(math::complement(math::fisher_f(df_numerator, df_denominator), f));
}

}  // namespace shardstream::study
