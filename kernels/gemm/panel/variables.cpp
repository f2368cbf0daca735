#include "kernels/gemm/panel/variables.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>

#include "kernels/gemm/cuda.hpp"
#include "kernels/gemm/panel/rounding.hpp"
#include "kernels/vector_clones.hpp"

namespace shardstream::gemm {
namespace {

constexpr unsigned width = 4;  // explicit, since compilers do not vectorise sums of doubles
using Doubles [[gnu::vector_size(width * sizeof(double))]] = double;

template <class T>
[[gnu::always_inline]] inline void load(const T* from, Doubles& to) {
  using Four [[gnu::vector_size(width * sizeof(T))]] = T;
  Four four;
  std::memcpy(&four, from, sizeof(four));
  to = __builtin_convertvector(four, Doubles);
}

/// The factors of samples if all are 1. Multiplications by this constant vanish.
struct Ones {
  constexpr double operator[](std::uint64_t) const { return 1; }
};

struct Moment {
  double sum = 0, squares = 0;

  void take(double x, double factor) {
    sum += x * factor;
    squares += x * x;
  }
};

constexpr std::uint64_t together = 512;  // columns whose sums fit in the nearest cache

struct Moments {
  double sums[together], squares[together];
};

/// Adds rows `samples` of up to `together` columns in order. `x` is the first element of row 0.
template <class T, class Factors>
[[gnu::always_inline]] inline void add_rows(const T* x, std::uint64_t ld, Rows samples,
                                            std::uint64_t columns, const Factors& factors,
                                            Moments& to) {
  std::uint64_t v = 0;
  for (; v + width <= columns; v += width) {
    Doubles sum, square;
    std::memcpy(&sum, to.sums + v, sizeof(sum));
    std::memcpy(&square, to.squares + v, sizeof(square));
    for (std::uint64_t s = samples.begin; s < samples.end; ++s) {
      Doubles d;
      load(x + s * ld + v, d);
      sum += d * factors[s];
      square += d * d;
    }
    std::memcpy(to.sums + v, &sum, sizeof(sum));
    std::memcpy(to.squares + v, &square, sizeof(square));
  }
  for (; v < columns; ++v) {
    Moment some{to.sums[v], to.squares[v]};
    for (std::uint64_t s = samples.begin; s < samples.end; ++s) {
      some.take(static_cast<double>(x[s * ld + v]), factors[s]);
    }
    to.sums[v] = some.sum, to.squares[v] = some.squares;
  }
}

/// Adds samples of B's columns.
template <class T, class Factors>
SHARDSTREAM_VECTOR_CLONES void add_columns(const VariableSumsArgs& args, Rows variables,
                                           Rows samples, Factors factors) {
  constexpr std::uint64_t step = 8;  // rows that are read together
  const T* const panel = static_cast<const T*>(args.panel);
  Moments some;
  for (std::uint64_t v = variables.begin; v < variables.end; v += together) {
    const std::uint64_t columns = std::min(together, variables.end - v);
    std::fill_n(some.sums, columns, 0.0);
    std::fill_n(some.squares, columns, 0.0);
    for (std::uint64_t s = samples.begin; s < samples.end; s += step) {
      add_rows(panel + v, args.ld, {s, std::min(s + step, samples.end)}, columns, factors, some);
    }
    for (std::uint64_t i = 0; i < columns; ++i) {
      args.sums[v + i] += some.sums[i];
      args.squares[v + i] += some.squares[i];
    }
  }
}

/// Adds samples of A's rows. Several rows are summed side by side, so that additions do not wait
/// for one another.
template <class T, class Factors>
void add_rows_of_a(const VariableSumsArgs& args, Rows variables, Rows samples, Factors factors) {
  constexpr std::uint64_t group = 8;
  const T* const panel = static_cast<const T*>(args.panel);
  for (std::uint64_t v = variables.begin; v < variables.end; v += group) {
    const std::uint64_t count = std::min(group, variables.end - v);
    Moment some[group];
    for (std::uint64_t s = samples.begin; s < samples.end; ++s) {
      for (std::uint64_t i = 0; i < count; ++i) {
        some[i].take(static_cast<double>(panel[(v + i) * args.ld + s]), factors[s]);
      }
    }
    for (std::uint64_t i = 0; i < count; ++i) {
      args.sums[v + i] += some[i].sum;
      args.squares[v + i] += some[i].squares;
    }
  }
}

template <class T, class Factors>
void add_samples(const VariableSumsArgs& args, Rows variables, Factors factors) {
  for (std::uint64_t s = 0; s < args.depth; s += samples_a_sum) {
    const Rows samples{s, std::min(s + samples_a_sum, args.depth)};
    args.side == Side::a ? add_rows_of_a<T>(args, variables, samples, factors)
                         : add_columns<T>(args, variables, samples, factors);
  }
}

void variable_sums(const VariableSumsArgs& args, unsigned part, unsigned parts) {
  const Rows variables = rows_of(args.variables, part, parts);
  if (args.first) {
    std::fill(args.sums + variables.begin, args.sums + variables.end, 0.0);
    std::fill(args.squares + variables.begin, args.squares + variables.end, 0.0);
  }
  with_host_panel_type(args.precision, [&](auto of) {
    using T = typename decltype(of)::type;
    args.factors == nullptr ? add_samples<T>(args, variables, Ones{})
                            : add_samples<T>(args, variables, args.factors);
  });
}

void settle(const SettleArgs& args, unsigned part, unsigned parts) {
  const Rows variables = rows_of(args.variables, part, parts);
  const ElementRange range = range_of(args.precision);
  std::uint64_t unsettled = 0;
  for (std::uint64_t v = variables.begin; v < variables.end; ++v) {
    const bool lost =
        args.lost != nullptr && std::atomic_ref(args.lost[v]).load(std::memory_order_relaxed) != 0;
    const bool settled =
        detail::settle(args, range, v, lost, [](double x) { return std::sqrt(x); });
    unsettled += settled ? 0 : 1;
  }
  if (args.unsettled != nullptr && unsettled > 0) {
    std::atomic_ref(*args.unsettled).fetch_add(unsettled, std::memory_order_relaxed);
  }
}

/// Converts one row. If `column_sums` is null, nothing is subtracted.
template <class T>
SHARDSTREAM_VECTOR_CLONES void covariance_row(T* row, const double* column_sums,
                                              const double* column_factors, double row_share,
                                              double alpha, double row_factor,
                                              std::uint64_t count) {
  for (std::uint64_t c = 0; c < count; ++c) {
    const double product = static_cast<double>(row[c]);
    const double off = column_sums == nullptr ? 0 : row_share * column_sums[c];
    row[c] = static_cast<T>((product - off) * alpha * row_factor * column_factors[c]);
  }
}

/// Sets the elements of a row to 0 whose variables have no weight.
template <class T>
void clear_without_weight(T* row, double row_weight, const double* column_weights,
                          std::uint64_t count) {
  for (std::uint64_t c = 0; c < count; ++c) {
    if (row_weight == 0 || column_weights[c] == 0) row[c] = 0;
  }
}

double largest(const double* factors, std::uint64_t count) {
  double max = 0;
  for (std::uint64_t i = 0; i < count; ++i) max = factors[i] > max ? factors[i] : max;
  return max;
}

void covariance(const CovarianceArgs& args, unsigned part, unsigned parts) {
  if (part == 0) {
    *args.threshold *=
        largest(args.row_factors, args.rows) * largest(args.column_factors, args.columns);
  }
  const Rows rows = rows_of(args.rows, part, parts);
  with_rounded_type(args.precision, [&](auto of) {
    using T = typename decltype(of)::type;
    for (std::uint64_t r = rows.begin; r < rows.end; ++r) {
      T* const row = static_cast<T*>(args.tile) + r * args.ld;
      const double share = args.row_sums == nullptr ? 0 : args.row_sums[r] / args.samples;
      covariance_row(row, args.column_sums, args.column_factors, share, args.alpha,
                     args.row_factors[r], args.columns);
      if (args.row_weights != nullptr) {
        clear_without_weight(row, args.row_weights[r], args.column_weights, args.columns);
      }
      if (!args.correlates) continue;
      for (std::uint64_t c = 0; c < args.columns; ++c) {
        row[c] = correlation(row[c], args.diagonal && r == c);
      }
    }
  });
}

}  // namespace

Kernel<VariableSumsArgs> variable_sums_kernel() {
  return {"gemm_variable_sums", variable_sums, with_cuda<cuda::variable_sums>()};
}
Kernel<SettleArgs> settle_kernel() {
  return {"gemm_settle", settle, with_cuda<cuda::settle>()};
}
Kernel<CovarianceArgs> covariance_kernel() {
  return {"gemm_covariance", covariance, with_cuda<cuda::covariance>()};
}

}  // namespace shardstream::gemm
