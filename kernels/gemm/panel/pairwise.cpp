#include "kernels/gemm/panel/pairwise.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "kernels/gemm/cuda.hpp"
#include "kernels/gemm/panel/rounding.hpp"

namespace shardstream::gemm {
namespace {

double root(double x) {
  return std::sqrt(x);
}

/// Reads the moments of one pair from the accumulators.
template <class T>
class Reader {
 public:
  explicit Reader(const PairwiseArgs& args) : args_(args) {}

  detail::PairSums operator()(std::uint64_t at) const {
    return {value(args_.products, at),    value(args_.counts, at),
            value(args_.row_sums, at),    value(args_.column_sums, at),
            value(args_.row_squares, at), value(args_.column_squares, at)};
  }

 private:
  static double value(const void* sums, std::uint64_t at) {
    return sums == nullptr ? 0 : static_cast<double>(static_cast<const T*>(sums)[at]);
  }

  const PairwiseArgs& args_;
};

/// Makes a row of C, and returns its maximum sensitivity.
template <class T>
double finish_row(const PairwiseArgs& args, const detail::PairRule& rule, std::uint64_t r) {
  using Count = std::conditional_t<sizeof(T) == 8, std::int64_t, std::int32_t>;
  const Reader<T> read(args);
  const double row_factor = args.row_factors == nullptr ? 1 : args.row_factors[r];
  double sensitivity = 0;
  for (std::uint64_t c = 0; c < args.columns; ++c) {
    const std::uint64_t at = r * args.ld + c;
    const detail::PairSums sums = read(at);
    const double column_factor = args.column_factors == nullptr ? 1 : args.column_factors[c];
    const auto made = detail::has_weight(args, r, c)
                          ? detail::pair_element(sums, rule, row_factor * column_factor, root)
                          : detail::PairElement{0, 0};
    const bool diagonal = args.diagonal && r == c;
    const auto value = static_cast<T>(made.value);
    static_cast<T*>(args.products)[at] = rule.scales ? correlation(value, diagonal) : value;
    const auto count = static_cast<Count>(sums.count);
    std::memcpy(static_cast<std::byte*>(args.counts) + at * sizeof(T), &count, sizeof(count));
    if (made.sensitivity > sensitivity) sensitivity = made.sensitivity;  // not NaN
  }
  return sensitivity;
}

void raise(double& to, double value) {
  const std::atomic_ref maximum(to);
  double now = maximum.load(std::memory_order_relaxed);
  while (value > now && !maximum.compare_exchange_weak(now, value, std::memory_order_relaxed)) {
  }
}

void pairwise(const PairwiseArgs& args, unsigned part, unsigned parts) {
  const Rows rows = rows_of(args.rows, part, parts);
  const detail::PairRule rule = detail::rule_of(args);
  double sensitivity = 0;
  with_rounded_type(args.precision, [&](auto of) {
    for (std::uint64_t r = rows.begin; r < rows.end; ++r) {
      const double of_row = finish_row<typename decltype(of)::type>(args, rule, r);
      sensitivity = std::max(sensitivity, of_row);
    }
  });
  raise(*args.sensitivity, sensitivity);
}

}  // namespace

Kernel<PairwiseArgs> pairwise_kernel() {
  return {"gemm_pairwise", pairwise, with_cuda<cuda::pairwise>()};
}

}  // namespace shardstream::gemm
