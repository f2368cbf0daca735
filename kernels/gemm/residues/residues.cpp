#include "kernels/gemm/residues/residues.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/gemm/cuda.hpp"
#include "kernels/gemm/residues/scales.hpp"
#include "kernels/vector_clones.hpp"

namespace shardstream::gemm {
namespace {

SHARDSTREAM_VECTOR_CLONES
std::uint64_t largest_of(const double* x, std::uint64_t k) {
  std::uint64_t largest = 0;
  for (std::uint64_t i = 0; i < k; ++i) largest = std::max(largest, detail::magnitude_bits(x[i]));
  return largest;
}

SHARDSTREAM_VECTOR_CLONES
std::uint64_t squares_of(const double* x, std::uint64_t k, const detail::Power& power) {
  std::uint64_t squares = 0;
  for (std::uint64_t i = 0; i < k; ++i) squares += detail::norm_square(x[i], power);
  return squares;
}

/// The integers of a line, as balanced digits of base 256: digit d of element i is at [d][i].
using Digits = std::array<std::array<std::int8_t, max_residue_k>, 8>;

/// Rounds a line to integers. Returns the maximum difference of an element to its integer.
SHARDSTREAM_VECTOR_CLONES
double round_line(const double* x, std::uint64_t k, const detail::Power& power, Digits& to) {
  constexpr std::uint64_t middles = 0x0080808080808080;
  double difference = 0;
  for (std::uint64_t i = 0; i < k; ++i) {
    const double scaled = detail::scaled(x[i], power), rounded = std::nearbyint(scaled);
    difference = std::max(difference, std::abs(scaled - rounded));
    const auto integer = static_cast<std::uint64_t>(static_cast<std::int64_t>(rounded));
    const std::uint64_t digits = (integer + middles) ^ middles;
    for (unsigned d = 0; d < to.size(); ++d) to[d][i] = static_cast<std::int8_t>(digits >> 8 * d);
  }
  return difference;
}

SHARDSTREAM_VECTOR_CLONES
void write_residues(const Digits& digits, std::uint64_t k, const Modulus& m, std::int8_t* to) {
  constexpr float magic = 0x1.8p23F;  // adding it rounds to an integer
  std::array<std::int32_t, 8> powers;
  for (unsigned d = 0; d < 8; ++d) {
    powers[d] = static_cast<std::int8_t>((d < 4 ? m.low_digits : m.high_digits) >> 8 * (d % 4));
  }
  for (std::uint64_t i = 0; i < k; ++i) {
    std::int32_t sum = 0;  // below 2^18
    for (unsigned d = 0; d < 8; ++d) sum += digits[d][i] * powers[d];
    const float quotient = (static_cast<float>(sum) * m.inverse + magic) - magic;
    to[i] = static_cast<std::int8_t>(sum - m.p * static_cast<std::int32_t>(quotient));
  }
}

void raise(double* to, double value) {
  const std::atomic_ref<double> shared(*to);
  double old = shared.load();
  while (old < value && !shared.compare_exchange_weak(old, value)) {
  }
}

/// Writes the residues of line `line`, whose elements are contiguous at `x`.
void convert_line(const ResiduesArgs& args, const Basis& basis, const double* x, std::uint64_t line,
                  Digits& digits) {
  const double root = std::sqrt(static_cast<double>(args.k));
  const std::uint64_t largest = largest_of(x, args.k);
  const auto plane = [&](unsigned t) { return args.to + t * args.pitch + line * args.k; };
  if (largest == 0 || largest >= detail::infinite_bits) {
    args.exponents[line] = largest == 0                       ? 0
                           : largest == detail::infinite_bits ? has_infinity
                                                              : has_nan;
    for (unsigned t = 0; t < basis.count; ++t) std::memset(plane(t), 0, args.k);
    return;
  }
  const detail::Power of_norm(detail::norm_bits - detail::exponent_above(largest));
  const double norm = std::sqrt(static_cast<double>(squares_of(x, args.k, of_norm)));
  const detail::LineScale scale =
      detail::line_scale(largest, norm, root, max_scaled_norm(basis, args.k));
  args.exponents[line] = scale.exponent;
  const double difference = round_line(x, args.k, detail::Power(scale.exponent), digits);
  if (args.error != nullptr) raise(args.error, scale.error * difference);
  for (unsigned t = 0; t < basis.count; ++t) {
    write_residues(digits, args.k, basis.moduli[t], plane(t));
  }
}

template <class T>
void convert(const ResiduesArgs& args, unsigned part, unsigned parts) {
  constexpr std::uint64_t at_once = 16;  // lines: columns of a panel share cache lines
  const Rows lines = rows_of(args.lines, part, parts);
  const Basis& basis = basis_with(args.moduli);
  const auto* const panel = static_cast<const T*>(args.panel);
  std::vector<double> values(at_once * args.k);
  const auto digits = std::make_unique_for_overwrite<Digits>();
  for (std::uint64_t first = lines.begin; first < lines.end; first += at_once) {
    const std::uint64_t count = std::min(at_once, lines.end - first);
    const bool rows = args.side == Side::a;
    for (std::uint64_t outer = 0; outer < (rows ? count : args.k); ++outer) {
      for (std::uint64_t inner = 0; inner < (rows ? args.k : count); ++inner) {
        const std::uint64_t line = rows ? outer : inner, i = rows ? inner : outer;
        values[line * args.k + i] =
            rows ? panel[(first + line) * args.ld + i] : panel[i * args.ld + first + line];
      }
    }
    for (std::uint64_t i = 0; i < count; ++i) {
      convert_line(args, basis, values.data() + i * args.k, first + i, *digits);
    }
  }
}

void write_all_residues(const ResiduesArgs& args, unsigned part, unsigned parts) {
  with_host_panel_type(args.precision,
                       [&](auto of) { convert<typename decltype(of)::type>(args, part, parts); });
}

template <class T, class Word>
T element(const ReconstructArgs& args, const Basis& basis, std::uint64_t row,
          std::uint64_t column) {
  const std::int32_t of_a = args.a_exponents[row], of_b = args.b_exponents[column];
  if (of_a == has_nan || of_b == has_nan) return std::numeric_limits<T>::quiet_NaN();
  if (of_a == has_infinity || of_b == has_infinity) {
    return detail::product_of_lines(static_cast<const T*>(args.a) + row * args.lda,
                                    static_cast<const T*>(args.b) + column, args.ldb, args.k);
  }
  detail::IntegerSum<Word> sum;
  const std::uint64_t plane = args.rows * args.columns, at = row * args.columns + column;
  for (unsigned t = 0; t < basis.count; ++t)
    sum.add(args.products[t * plane + at], basis.moduli[t]);
  return detail::rounded_integer<T>(sum.integer(basis), -(of_a + of_b));
}

template <class T, class Word>
void reconstruct_rows(const ReconstructArgs& args, Rows rows) {
  const Basis& basis = basis_with(args.moduli);
  for (std::uint64_t row = rows.begin; row < rows.end; ++row) {
    T* const c = static_cast<T*>(args.c) + row * args.columns;
    for (std::uint64_t column = 0; column < args.columns; ++column) {
      const T product = element<T, Word>(args, basis, row, column);
      c[column] = args.first ? product : c[column] + product;
    }
  }
}

void reconstruct(const ReconstructArgs& args, unsigned part, unsigned parts) {
  const Rows rows = rows_of(args.rows, part, parts);
  with_host_panel_type(args.precision, [&](auto of) {
    using T = typename decltype(of)::type;
    if (basis_with(args.moduli).is_narrow()) {
      reconstruct_rows<T, std::uint64_t>(args, rows);
    } else {
      reconstruct_rows<T, UInt128>(args, rows);
    }
  });
}

}  // namespace

const Basis& basis_with(unsigned count) {
  static constexpr auto bases = []<std::size_t... I>(std::index_sequence<I...>) {
    return std::array{basis_of(min_moduli + I)...};
  }
  (std::make_index_sequence<max_moduli - min_moduli + 1>());
  return bases.at(count - min_moduli);
}

Kernel<ResiduesArgs> residues_kernel() {
  return {"gemm_residues", write_all_residues, with_cuda<cuda::residues>()};
}
Kernel<ReconstructArgs> reconstruct_kernel() {
  return {"gemm_reconstruct", reconstruct, with_cuda<cuda::reconstruct>()};
}

}  // namespace shardstream::gemm
