// The precisions of matrix products. A precision is one row of precision_rows; all code reads the
// row. Code per type (rounding, kernels, library calls) depends on the row's types.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>

#include "kernels/backend.hpp"
#include "kernels/gemm/residues/basis.hpp"
#include "types/element.hpp"

namespace shardstream::gemm {

/// fp64 multiplies and adds doubles, fp32 floats. fp32x3 splits each float into two of tf32 and
/// adds three of their four products, which gives nearly fp32's accuracy on tensor cores. tf32,
/// bf16 and fp16 round the elements to these formats, multiply them exactly and add in float. int8
/// multiplies integers from -128 to 127 and adds the products exactly in 32 bits. fp64_int8 and
/// fp32_int8 multiply doubles and floats on 8-bit tensor cores: they round the lines of a block of
/// K to integers and multiply their residues modulo several numbers (residues/basis.hpp).
enum class Precision : std::uint8_t {
  fp64,
  fp32,
  fp32x3,
  tf32,
  bf16,
  fp16,
  int8,
  fp64_int8,
  fp32_int8
};

/// The factors of a product, C = A B.
enum class Side : std::uint8_t { a, b };

/// The formats of a panel's elements: double, float, float rounded to tf32, ...
enum class Format : std::uint8_t { f64, f32, tf32, bf16, fp16, i8 };

/// Limits for variables that are centred and scaled (panel/variables.hpp).
struct ElementRange {
  /// The binary exponent of the standard deviation after shift and scale.
  int usual_exponent;
  /// The binary exponent of the largest distance from the middle, if a variable's extremes
  /// determine its scale. The deviation is smaller by at most the root of the number of samples.
  int extreme_exponent;
  /// The range of variances in which the squares and the rounding lose nothing.
  double min_variance, max_variance;
  /// A bound for values that are rounded to 0, or whose squares are 0 as doubles.
  double vanishing;
};
inline constexpr ElementRange double_range{0, 0, 0x1p-600, 0x1p600, 0x1p-500},
    float_range{0, 0, 0x1p-60, 0x1p60, 0x1p-130};
/// Elements below 2^22 standard deviations are finite, and elements down to 2^-18 of it do not
/// become 0. There are few smaller exponents, so a scale from extremes has a larger one.
inline constexpr ElementRange half_range{-6, 7, 0x1p-24, 0x1p16, 0x1p-24};

struct FormatTraits {
  std::size_t gpu_bytes;     ///< of an element; a host has floats with the same values, and doubles
  ElementRange range;        ///< integers are not centred
  std::string_view largest;  ///< the largest number, if floats hold larger ones
};

/// The row of a format. In device code, only for a constant format.
constexpr FormatTraits traits_of(Format format) {
  constexpr FormatTraits rows[] = {{8, double_range, ""},    {4, float_range, ""},
                                   {4, float_range, ""},     {2, float_range, ""},
                                   {2, half_range, "65504"}, {1, float_range, ""}};
  return rows[static_cast<std::size_t>(format)];
}

/// The rounding errors of sums, for the bound of the check (kernels/gemm/CHECK.md).
struct Rounding {
  double unit;  ///< of the sums; 0 if they are exact
  /// Tensor cores lose as much as if they added so many products at a time and truncated the sum
  /// (kernels/MEASUREMENTS.md). 0: additions are rounded.
  unsigned products_a_step;
};

/// Sizes of the library's calls on one backend, and their rate.
struct CallTraits {
  std::uint64_t max_k;      ///< the maximum depth of a block of K
  std::uint64_t max_lanes;  ///< of a tall product (lanes_for(), grid.hpp)
  double assumed_gflops;    ///< for a dry run: of about an H100, or of a few cores of a host
};

struct PrecisionTraits {
  Precision precision;
  std::string_view name;
  Format panel;
  ElementType accumulator = ElementType::f32;  ///< the type of sums, and of C
  ElementType generated = ElementType::f32;    ///< the type of generated matrices
  Rounding rounding;
  CallTraits host{.max_k = 2048, .max_lanes = 4, .assumed_gflops = 400}, gpu;
  std::uint64_t max_host_edge = 512;  ///< of tiles: there a host's library reaches its full rate
  /// If elements are split: the precision of the parts, which the library multiplies.
  std::optional<Precision> parts = {};
  /// The number of products of factors that make one product; 1 unless elements are split.
  unsigned products = 1;
  std::uint64_t max_terms = UINT64_MAX;  ///< the maximum number of products in a sum
  /// A's rows are padded if that makes products faster (a_ld(), grid.hpp).
  bool pads_a = false;
  /// Whether a GPU's fastest algorithm is the one that cuBLASLt proposes for a large product.
  bool likes_large_proposal = false;
  /// Whether cuBLASLt multiplies only if B is transposed.
  bool transposes_b_on_gpu = false;
  /// The least compute capability of GPUs with the units that the library needs, such as 80
  /// for 8.0.
  int compute_capability = 0;
  /// If residues are multiplied: the number of moduli with which the error of a product is at most
  /// sqrt(k) Rounding::unit |a_i| |b_j|, as for random errors of native sums. Else 0.
  unsigned moduli = 0;
};

/// The maximum depth of a K block if elements are split. Tensor cores truncate sums, so the error
/// grows with the depth of a call; the sums of several calls are rounded.
inline constexpr std::uint64_t max_split_k = 1024;

/// The maximum depth of a K block of int8 on a host. Up to this depth, sums of products are exact
/// in floats.
inline constexpr std::uint64_t max_float_int8_k = (1 << 24) / (128 * 128);

/// In the order of Precision. Deeper blocks read and write C less often. But if C takes most of a
/// GPU's memory, enough blocks of K must fit next to it to be computed while tiles are downloaded:
/// four with elements of two bytes, three with tf32, two with fp32, which is slower
/// (kernels/MEASUREMENTS.md). A host's library is slow with lanes of less than 512.
inline constexpr std::array precision_rows = {
    PrecisionTraits{.precision = Precision::fp64,
                    .name = "fp64",
                    .panel = Format::f64,
                    .accumulator = ElementType::f64,
                    .generated = ElementType::f64,
                    .rounding = {.unit = 0x1p-53, .products_a_step = 0},
                    .host = {.max_k = 2048, .max_lanes = 4, .assumed_gflops = 200},
                    .gpu = {.max_k = 4096, .max_lanes = 8, .assumed_gflops = 55'000},
                    .max_host_edge = 384},
    PrecisionTraits{.precision = Precision::fp32,
                    .name = "fp32",
                    .panel = Format::f32,
                    .rounding = {.unit = 0x1p-24, .products_a_step = 0},
                    .gpu = {.max_k = 8064, .max_lanes = 8, .assumed_gflops = 50'000},
                    .pads_a = true,
                    .likes_large_proposal = true},
    PrecisionTraits{.precision = Precision::fp32x3,
                    .name = "fp32x3",
                    .panel = Format::f32,
                    .rounding = {.unit = 0x1p-23, .products_a_step = 4},
                    .host = {.max_k = max_split_k, .max_lanes = 1, .assumed_gflops = 130},
                    .gpu = {.max_k = max_split_k, .max_lanes = 1, .assumed_gflops = 110'000},
                    .parts = Precision::tf32,
                    .products = 3,
                    .compute_capability = 80},
    PrecisionTraits{.precision = Precision::tf32,
                    .name = "tf32",
                    .panel = Format::tf32,
                    .rounding = {.unit = 0x1p-23, .products_a_step = 4},
                    .gpu = {.max_k = 5120, .max_lanes = 8, .assumed_gflops = 330'000},
                    .compute_capability = 80},
    PrecisionTraits{.precision = Precision::bf16,
                    .name = "bf16",
                    .panel = Format::bf16,
                    .rounding = {.unit = 0x1p-23, .products_a_step = 4},
                    .gpu = {.max_k = 8064, .max_lanes = 8, .assumed_gflops = 650'000},
                    .compute_capability = 80},
    PrecisionTraits{.precision = Precision::fp16,
                    .name = "fp16",
                    .panel = Format::fp16,
                    .rounding = {.unit = 0x1p-23, .products_a_step = 4},
                    .gpu = {.max_k = 8064, .max_lanes = 8, .assumed_gflops = 650'000},
                    .compute_capability = 70},
    // Each product is at most 2^14, so the sum fits into 32 bits.
    PrecisionTraits{.precision = Precision::int8,
                    .name = "int8",
                    .panel = Format::i8,
                    .accumulator = ElementType::i32,
                    .generated = ElementType::i8,
                    .rounding = {.unit = 0, .products_a_step = 0},
                    .host = {.max_k = max_float_int8_k, .max_lanes = 2, .assumed_gflops = 350},
                    .gpu = {.max_k = 8064, .max_lanes = 8, .assumed_gflops = 1'200'000},
                    .max_terms = 0x7fffffff / (128 * 128),
                    .transposes_b_on_gpu = true,
                    .compute_capability = 75},
    // Blocks of K are the same on all backends, so that the bits are. With deeper blocks products
    // are faster, but panels and residues leave less memory for C (kernels/MEASUREMENTS.md).
    PrecisionTraits{.precision = Precision::fp64_int8,
                    .name = "fp64-int8",
                    .panel = Format::f64,
                    .accumulator = ElementType::f64,
                    .generated = ElementType::f64,
                    .rounding = {.unit = 0x1p-53, .products_a_step = 0},
                    .host = {.max_k = max_residue_k, .max_lanes = 1, .assumed_gflops = 10},
                    .gpu = {.max_k = max_residue_k, .max_lanes = 1, .assumed_gflops = 85'000},
                    .max_host_edge = 384,
                    .compute_capability = 75,
                    .moduli = 14},
    PrecisionTraits{.precision = Precision::fp32_int8,
                    .name = "fp32-int8",
                    .panel = Format::f32,
                    .rounding = {.unit = 0x1p-24, .products_a_step = 0},
                    .host = {.max_k = max_residue_k, .max_lanes = 1, .assumed_gflops = 20},
                    .gpu = {.max_k = max_residue_k, .max_lanes = 1, .assumed_gflops = 175'000},
                    .compute_capability = 75,
                    .moduli = 7},
};

/// The row of a precision. Not for device code.
constexpr const PrecisionTraits& traits_of(Precision precision) {
  return precision_rows[static_cast<std::size_t>(precision)];
}

/// In the order of the enumeration.
inline constexpr std::array all_precisions = [] {
  std::array<Precision, precision_rows.size()> all{};
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<Precision>(i);
  return all;
}();
static_assert(std::ranges::equal(all_precisions, precision_rows, {}, {},
                                 &PrecisionTraits::precision),
              "the rows have the order of the enumeration");

constexpr std::string_view word_of(Precision precision) {
  return traits_of(precision).name;
}

/// The precision with this name, or nothing.
constexpr std::optional<Precision> precision_named(std::string_view name) {
  for (const PrecisionTraits& row : precision_rows) {
    if (row.name == name) return row.precision;
  }
  return std::nullopt;
}

/// Sizes and rate of the library's calls on a backend.
constexpr const CallTraits& calls_of(Precision precision, Backend backend) {
  const PrecisionTraits& row = traits_of(precision);
  return backend == Backend::host ? row.host : row.gpu;
}

/// The precision of the factors that the library multiplies: that of the panels unless elements are
/// split.
constexpr Precision factors_of(Precision precision) {
  return traits_of(precision).parts.value_or(precision);
}

/// Whether the library multiplies residues (residues/residues.hpp).
constexpr bool multiplies_residues(Precision precision) {
  return traits_of(precision).moduli > 0;
}

/// Whether a GPU of this compute capability (80 for 8.0) has the units that the library needs for
/// the precision. Also if it is 0: for a host, which needs none, or an unknown GPU.
constexpr bool has_units(Precision precision, int compute_capability) {
  return compute_capability == 0 || compute_capability >= traits_of(precision).compute_capability;
}

/// Bytes of an element of a panel: a double or a float on a host, which multiplies nothing else.
constexpr std::size_t panel_element_bytes(Precision precision, Backend backend) {
  const Format format = traits_of(precision).panel;
  if (backend != Backend::host) return traits_of(format).gpu_bytes;
  return format == Format::f64 ? sizeof(double) : sizeof(float);
}

/// Limits for centred and scaled variables.
constexpr ElementRange range_of(Precision precision) {
  return traits_of(traits_of(precision).panel).range;
}

/// The type of an accumulator's elements, and of C's.
constexpr ElementType accumulator_type(Precision precision) {
  return traits_of(precision).accumulator;
}

/// Whether sums are exact. Then C is the sums themselves, without alpha, beta and centring.
constexpr bool sums_integers(Precision precision) {
  return accumulator_type(precision) == ElementType::i32;
}

/// Whether panels of this precision can be made from stored elements of type `from`: integers only
/// from their own type, the others from all types.
constexpr bool takes(Precision precision, ElementType from) {
  return !sums_integers(precision) || from == traits_of(precision).generated;
}

/// Bytes of an element of an accumulator and of C.
constexpr std::size_t accumulator_bytes(Precision precision) {
  return size_of(accumulator_type(precision));
}

/// Calls f(std::type_identity<T>{}) with the C++ type of an accumulator's elements.
template <class F>
decltype(auto) with_accumulator_type(Precision precision, F&& f) {
  switch (accumulator_type(precision)) {
    case ElementType::f64:
      return f(std::type_identity<double>{});
    case ElementType::i32:
      return f(std::type_identity<std::int32_t>{});
    default:
      return f(std::type_identity<float>{});
  }
}

/// Calls f(std::type_identity<T>{}) with the C++ type of a panel's elements on a host.
template <class F>
decltype(auto) with_host_panel_type(Precision precision, F&& f) {
  if (traits_of(precision).panel == Format::f64) return f(std::type_identity<double>{});
  return f(std::type_identity<float>{});
}

}  // namespace shardstream::gemm
