#include "experiments/instructions/matrix_products.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/data/generate.hpp"
#include "kernels/gemm/multiply/factor.hpp"
#include "kernels/gemm/residues/residues.hpp"

namespace shardstream::experiments::instructions {
namespace {

using gemm::Precision;
using gemm::Side;

constexpr std::uint64_t seed_of(Side side) {
  return side == Side::a ? 1 : 2;
}

std::uint64_t up_to_multiple(std::uint64_t x, std::uint64_t of) {
  return (x + of - 1) / of * of;
}

std::size_t element_bytes(Precision precision) {
  return gemm::panel_element_bytes(precision, Backend::cuda);
}

}  // namespace

MatrixProduct::MatrixProduct(Gpu& gpu, Precision precision, std::uint64_t n)
    : gpu_(gpu),
      precision_(precision),
      n_(n),
      tile_(gemm::tile_for(n, n, n, precision, Backend::cuda)),
      rows_(up_to_multiple(n, tile_.m)),
      columns_(up_to_multiple(n, tile_.n)),
      depth_(up_to_multiple(n, tile_.k)),
      lda_(gemm::a_ld(precision, tile_.k, Backend::cuda)),
      plan_(gemm::make_multiply_plan(precision, tile_, Backend::cuda)),
      a_(depth_ / tile_.k * rows_ * lda_ * element_bytes(precision)),
      b_(depth_ * columns_ * element_bytes(precision)),
      c_(rows_ * columns_ * gemm::accumulator_bytes(precision)),
      a_factor_(factor(Side::a)),
      b_factor_(factor(Side::b)) {
  at_ = gemm::all_tiles(rows_ / tile_.m, columns_ / tile_.n);
  generate(Side::a);
  generate(Side::b);
}

/// Memory for split floats or residues of a block, for the exponents of the residues, and for the
/// transposition of B. All parts are multiples of 256 bytes.
DeviceArray<std::byte> MatrixProduct::factor(Side side) const {
  const std::uint64_t lines = side == Side::a ? rows_ : columns_;
  std::uint64_t bytes = 0;
  if (gemm::splits(precision_)) {
    bytes = lines * gemm::factor_depth(precision_, tile_.k) * element_bytes(precision_);
  } else if (gemm::multiplies_residues(precision_)) {
    bytes = lines * (tile_.moduli * tile_.k + sizeof(std::int32_t));
    if (side == Side::b) {
      bytes += gemm::residue_scratch_lines * tile_.k * element_bytes(precision_);
    }
  }
  return DeviceArray<std::byte>(bytes);
}

/// Padding is zeros.
void MatrixProduct::generate(Side side) {
  const bool of_a = side == Side::a;
  const std::uint64_t ld = of_a ? lda_ : columns_, element = element_bytes(precision_),
                      panel_bytes = (of_a ? rows_ : tile_.k) * ld * element;
  std::vector<std::byte> panel(panel_bytes);
  for (std::uint64_t block = 0; block < depth_ / tile_.k; ++block) {
    const std::uint64_t first = block * tile_.k, depth = std::min(tile_.k, n_ - first);
    std::ranges::fill(panel, std::byte{0});
    for (std::uint64_t line = 0; line < (of_a ? n_ : depth); ++line) {
      shardstream::generate(Generator::uniform, gemm::traits_of(precision_).generated,
                            seed_of(side), of_a ? line * n_ + first : (first + line) * n_,
                            of_a ? depth : n_, panel.data() + line * ld * element);
    }
    check(cudaMemcpy((of_a ? a_ : b_).data() + block * panel_bytes, panel.data(), panel_bytes,
                     cudaMemcpyHostToDevice),
          "cudaMemcpy");
  }
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

gemm::Residues MatrixProduct::make_residues(Side side, const std::byte* panel) const {
  const bool of_a = side == Side::a;
  const std::uint64_t lines = of_a ? rows_ : columns_, pitch = lines * tile_.k;
  std::byte* const planes = (of_a ? a_factor_ : b_factor_).data();
  std::byte* const exponents = planes + tile_.moduli * pitch;
  const gemm::Residues made{reinterpret_cast<std::int8_t*>(planes), pitch,
                            reinterpret_cast<std::int32_t*>(exponents)};
  gemm::residues_kernel().cuda({.panel = panel,
                                .precision = precision_,
                                .side = side,
                                .lines = lines,
                                .k = tile_.k,
                                .ld = of_a ? lda_ : columns_,
                                .moduli = tile_.moduli,
                                .to = reinterpret_cast<std::int8_t*>(planes),
                                .pitch = pitch,
                                .exponents = reinterpret_cast<std::int32_t*>(exponents),
                                .scratch = exponents + lines * sizeof(std::int32_t)},
                               gpu_.stream());
  return made;
}

const std::byte* MatrixProduct::split(Side side, const std::byte* panel) const {
  const bool of_a = side == Side::a;
  std::byte* const made = (of_a ? a_factor_ : b_factor_).data();
  gemm::split_kernel().cuda({.panel = panel,
                             .side = side,
                             .rows = of_a ? rows_ : tile_.k,
                             .columns = of_a ? tile_.k : columns_,
                             .ld = of_a ? lda_ : columns_,
                             .factor = made},
                            gpu_.stream());
  return made;
}

void MatrixProduct::enqueue() const {
  const std::uint64_t element = element_bytes(precision_);
  for (std::uint64_t block = 0; block < depth_ / tile_.k; ++block) {
    const std::byte* a = a_.data() + block * rows_ * lda_ * element;
    const std::byte* b = b_.data() + block * tile_.k * columns_ * element;
    gemm::MultiplyArgs args{.plan = plan_.get(),
                            .k = tile_.k,
                            .a = a,
                            .b = b,
                            .ldb = columns_,
                            .tiles = c_.data(),
                            .at = at_.data(),
                            .count = at_.size(),
                            .first = block == 0};
    if (gemm::splits(precision_)) {
      args.a = split(Side::a, a);
      args.b = split(Side::b, b);
    } else if (gemm::multiplies_residues(precision_)) {
      args.residues = {make_residues(Side::a, a), make_residues(Side::b, b)};
    }
    gemm::multiply_kernel().cuda(args, gpu_.stream());
  }
}

template <class T>
double product_error(std::uint64_t n,
                     const std::function<T(std::uint64_t row, std::uint64_t column)>& found_at) {
  constexpr std::uint64_t samples = 16;
  const std::uint64_t a = stream_of(seed_of(Side::a)), b = stream_of(seed_of(Side::b));
  double error = 0;
  for (std::uint64_t i = 0; i < samples * samples; ++i) {
    const std::uint64_t row = i / samples * (n - 1) / (samples - 1),
                        column = i % samples * (n - 1) / (samples - 1);
    long double exact = 0;
    for (std::uint64_t k = 0; k < n; ++k) {
      exact += static_cast<long double>(uniform_element<T>(a, row * n + k)) *
               uniform_element<T>(b, k * n + column);
    }
    const T found = found_at(row, column);
    if (!std::isfinite(found)) return std::numeric_limits<double>::infinity();
    error = std::max(error, static_cast<double>(std::abs(found - exact) / exact));
  }
  return error;
}
template double product_error<double>(std::uint64_t,
                                      const std::function<double(std::uint64_t, std::uint64_t)>&);

std::vector<double> generated_doubles(gemm::Side side, std::uint64_t n) {
  std::vector<double> matrix(n * n);
  shardstream::generate(Generator::uniform, ElementType::f64, seed_of(side), 0, n * n,
                        reinterpret_cast<std::byte*>(matrix.data()));
  return matrix;
}

template <class T>
double MatrixProduct::error_of() const {
  return product_error<T>(n_, [&](std::uint64_t row, std::uint64_t column) {
    const std::uint64_t tile = row / tile_.m * (columns_ / tile_.n) + column / tile_.n;
    const std::uint64_t place = (tile * tile_.m + row % tile_.m) * tile_.n + column % tile_.n;
    const std::vector<std::byte> read = c_.read(place * sizeof(T), sizeof(T));
    T found;
    std::memcpy(&found, read.data(), sizeof(T));
    return found;
  });
}

double MatrixProduct::error() const {
  return gemm::accumulator_type(precision_) == ElementType::f64 ? error_of<double>()
                                                                : error_of<float>();
}

double MatrixProduct::max_error() const {
  return static_cast<double>(n_) * gemm::traits_of(precision_).rounding.unit;
}

double MatrixProduct::bytes() const {
  return static_cast<double>(n_ * n_) *
         static_cast<double>(2 * element_bytes(precision_) + gemm::accumulator_bytes(precision_));
}

}  // namespace shardstream::experiments::instructions
