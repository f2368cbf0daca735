// Quantiles and tails of the distributions that intervals and tests need, from Boost.Math.
#pragma once

namespace shardstream::study {

/// The t for which Student's distribution has 95 % of its mass in -t..t. `df` > 0 degrees of
/// freedom; need not be whole.
double students_t_95(double df);

/// The probability that |t| is at least |`t`| if there is no effect, with `df` > 0.
double students_t_p_value(double t, double df);

/// The probability of at least `f` under Fisher's F distribution, with both degrees of freedom > 0.
double fisher_f_p_value(double f, double df_numerator, double df_denominator);

}  // namespace shardstream::study
