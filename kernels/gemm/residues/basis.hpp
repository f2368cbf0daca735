// The moduli of products from residues (K. Ozaki, Y. Uchino, T. Imamura, "Ozaki Scheme II",
// arXiv 2504.08009). A and B are rounded to integers. Their residues modulo pairwise coprime
// numbers up to 256 fit into 8 bits, and tensor cores multiply them exactly. The Chinese remainder
// theorem gives the integer product, which is exact, since its magnitude is below half the product
// of the moduli. README.md derives the bounds.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>

namespace shardstream::gemm {

__extension__ using UInt128 = unsigned __int128;

/// Pairwise coprime, in descending order. A basis has the first ones.
inline constexpr std::array<std::uint16_t, 16> all_moduli = {
    256, 255, 253, 251, 247, 241, 239, 233, 229, 227, 223, 217, 211, 199, 197, 193};
inline constexpr unsigned min_moduli = 4, max_moduli = all_moduli.size();

/// The product of up to so many moduli is below 2^64.
inline constexpr unsigned narrow_moduli = 8;

/// The maximum depth of a block of K. Sums of products of residues then fit into 32 bits, and so do
/// a row's elements into the registers of a thread block.
inline constexpr std::uint64_t max_residue_k = 8192;

/// A modulus p and the constants for it. P is the product of all moduli of the basis, M = P / p.
struct Modulus {
  std::int32_t p;
  std::int32_t reciprocal;  ///< 2^32 / p, rounded
  float inverse;            ///< 1 / p
  /// The residues of 256^0 ... 256^7 from -p/2 to p/2, one in each byte.
  std::uint32_t low_digits, high_digits;
  /// The multiple w M of M with w M = 1 modulo p, and 2^32 (w M / P), rounded down.
  UInt128 multiple;
  std::uint32_t fraction;
};

struct Basis {
  Modulus moduli[max_moduli];
  UInt128 product;
  unsigned count;
  bool is_narrow() const { return count <= narrow_moduli; }
};

namespace detail {

/// The residue of x modulo p from -p/2 to p/2; -128 for both middles of 256.
constexpr std::int32_t centred(std::uint64_t x, std::uint64_t p) {
  const auto residue = static_cast<std::int32_t>(x % p), modulus = static_cast<std::int32_t>(p);
  return 2 * residue >= modulus ? residue - modulus : residue;
}

/// The inverse of x modulo p, which are coprime.
constexpr std::uint64_t inverse_modulo(std::uint64_t x, std::uint64_t p) {
  std::uint64_t inverse = 1;
  while (x % p * inverse % p != 1) ++inverse;
  return inverse;
}

/// Four residues of 256^first ... 256^(first + 3).
constexpr std::uint32_t powers_of_256(unsigned first, std::uint64_t p) {
  std::uint32_t bytes = 0;
  std::uint64_t power = 1;
  for (unsigned i = 0; i < first + 4; ++i) {
    if (i >= first) {
      const auto byte = static_cast<std::uint8_t>(centred(power, p));
      bytes |= static_cast<std::uint32_t>(byte) << 8 * (i - first);
    }
    power = power * 256 % p;
  }
  return bytes;
}

}  // namespace detail

/// The basis with the first `count` moduli, from min_moduli to max_moduli.
constexpr Basis basis_of(unsigned count) {
  Basis basis{.moduli = {}, .product = 1, .count = count};
  for (unsigned i = 0; i < count; ++i) basis.product *= all_moduli[i];
  for (unsigned i = 0; i < count; ++i) {
    const std::uint64_t p = all_moduli[i];
    const UInt128 others = basis.product / p;
    const auto weight = detail::inverse_modulo(static_cast<std::uint64_t>(others % p), p);
    basis.moduli[i] = {.p = static_cast<std::int32_t>(p),
                       .reciprocal = static_cast<std::int32_t>(((1ULL << 32) + p / 2) / p),
                       .inverse = 1.0F / static_cast<float>(p),
                       .low_digits = detail::powers_of_256(0, p),
                       .high_digits = detail::powers_of_256(4, p),
                       .multiple = weight * others,
                       .fraction = static_cast<std::uint32_t>((weight << 32) / p)};
  }
  return basis;
}

/// The maximum norm of a scaled row and column, sqrt(P / 2 (1 - 2^-10)), rounded down. By Cauchy
/// and Schwarz the magnitude of their product is at most P / 2 (1 - 2^-10).
inline double max_norm(const Basis& basis) {
  const auto high = static_cast<double>(static_cast<std::uint64_t>(basis.product >> 64));
  const auto low = static_cast<double>(static_cast<std::uint64_t>(basis.product));
  return std::sqrt((high * 0x1p64 + low) / 2 * (1 - 0x1p-10)) * (1 - 0x1p-50);
}

/// The maximum norm of a row of k elements before they are rounded to integers, each of which
/// changes by at most 1/2.
inline double max_scaled_norm(const Basis& basis, std::uint64_t k) {
  return max_norm(basis) - std::sqrt(static_cast<double>(k)) / 2;
}

/// The bound of |C - A B| / (|a_i| |b_j|) for a block of depth k, except for the one rounding of C.
/// Rounding changes a row by at most sqrt(k) / 2, and its norm is more than half of
/// max_scaled_norm(); the factor covers the rounding of norms.
inline double residue_error(unsigned count, std::uint64_t k) {
  const double of_row =
      std::sqrt(static_cast<double>(k)) / max_scaled_norm(basis_of(count), k) * (1 + 0x1p-10);
  return 2 * of_row + of_row * of_row;
}

}  // namespace shardstream::gemm
