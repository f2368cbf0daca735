#include "kernels/gemm/narrow.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>

#include "kernels/gemm/check.hpp"
#include "kernels/gemm/cuda.hpp"
#include "kernels/gemm/grid.hpp"

namespace shardstream::gemm {
namespace {

/// The sums of rows [begin, end) of the panel.
struct Sums {
  std::array<double, max_narrow> products{}, squares{};
};

template <class T>
Sums sums_of(const T* panel, std::uint64_t columns, Rows rows, std::uint64_t seed) {
  std::array<double, max_narrow> signs{};
  for (std::uint64_t c = 0; c < columns; ++c) signs[c] = sign_of(seed, c);
  Sums sums;
  for (std::uint64_t kk = rows.begin; kk < rows.end; ++kk) {
    const T* const x = panel + kk * columns;
    double y = 0;
    for (std::uint64_t c = 0; c < columns; ++c) y += signs[c] * static_cast<double>(x[c]);
    for (std::uint64_t c = 0; c < columns; ++c) {
      const auto value = static_cast<double>(x[c]);
      sums.products[c] += value * y;
      sums.squares[c] += value * value;
    }
  }
  return sums;
}

/// The parts share the slices.
void narrow_sums(const NarrowSumsArgs& args, unsigned part, unsigned parts) {
  detail::expect_narrow(args);
  const std::uint64_t depth = detail::slice_depth(args.depth, args.slices);
  const Rows slices = rows_of(args.slices, part, parts);
  with_host_panel_type(args.precision, [&](auto of) {
    const auto* const panel = static_cast<const typename decltype(of)::type*>(args.panel);
    for (std::uint64_t s = slices.begin; s < slices.end; ++s) {
      const std::uint64_t first = std::min(s * depth, args.depth), offset = s * args.slice_pitch;
      const Sums sums =
          sums_of(panel, args.columns, {first, std::min(first + depth, args.depth)}, args.seed);
      const auto add = [&](double& to, double value) { to = args.first ? value : to + value; };
      double all = 0;
      for (std::uint64_t c = 0; c < args.columns; ++c) {
        add(args.z[offset + c], sums.products[c]);
        add(args.row_squares[offset + c], sums.squares[c]);
        all += sums.squares[c];
      }
      add(args.column_squares[offset], all);
    }
  });
}

void unfold(const UnfoldArgs& args, unsigned part, unsigned parts) {
  const Rows rows = rows_of(args.n, part, parts);
  with_accumulator_type(args.precision, [&](auto of) {
    using T = typename decltype(of)::type;
    const auto* const folded = static_cast<const T*>(args.folded);
    for (std::uint64_t i = rows.begin; i < rows.end; ++i) {
      for (std::uint64_t j = 0; j < args.n; ++j) {
        T sum = folded[i * args.fold * args.n + j];
        for (std::uint64_t s = 1; s < args.fold; ++s) {
          sum += folded[(s * args.n + i) * args.fold * args.n + s * args.n + j];
        }
        static_cast<T*>(args.out)[i * args.n + j] = sum;
      }
    }
  });
}

}  // namespace

void detail::expect_narrow(const NarrowSumsArgs& args) {
  if (args.columns == 0 || args.columns > max_narrow || args.columns % 4 != 0) {
    throw std::logic_error("a narrow panel has a multiple of 4 columns, up to 128");
  }
}

Kernel<NarrowSumsArgs> narrow_sums_kernel() {
  return {"gemm_narrow_sums", narrow_sums, with_cuda<cuda::narrow_sums>()};
}
Kernel<UnfoldArgs> unfold_kernel() {
  return {"gemm_unfold", unfold, with_cuda<cuda::unfold>()};
}

}  // namespace shardstream::gemm
