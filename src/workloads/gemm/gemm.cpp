#include "workloads/gemm/gemm.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "core/error.hpp"
#include "core/shard.hpp"
#include "kernels/gemm/grid.hpp"
#include "workloads/product/product.hpp"

namespace shardstream::workloads {
namespace {

constexpr std::array gemm_rows = {
    OptionRow{"gemm.alpha", OptionKind::number, "1", "", "Factor of the product A B."},
    OptionRow{"gemm.beta", OptionKind::number, "0", "",
              "Factor of input.c. With 0 nothing is added."},
    OptionRow{"gemm.transpose-a", OptionKind::flag, "false", "",
              "Whether input.a holds the transpose of A."},
    OptionRow{"gemm.transpose-b", OptionKind::flag, "false", "",
              "Whether input.b holds the transpose of B."},
    OptionRow{"gemm.m", OptionKind::count, "4096", "1..", "Rows of A and C, if A is generated."},
    OptionRow{"gemm.n", OptionKind::count, "4096", "1..", "Columns of B and C, if B is generated."},
    OptionRow{"gemm.k", OptionKind::count, "4096", "1..",
              "Columns of A and rows of B, if both are generated."},
};

/// A matrix that is not named is generated. If its partner is a file, this is probably a mistake.
void reject_half_named(const Options& options) {
  constexpr std::array<std::array<const char*, 2>, 2> pairs = {
      {{"input.a", "input.b"}, {"input.b", "input.a"}}};
  for (const auto& [named, other] : pairs) {
    if (!io::names_file(options, named) || !options.is_default(other)) continue;
    throw UsageError(fmt::format(
        "{} is {}, but {} is not named: name it too, or pass --{} uniform to generate it", named,
        options.text(named), other, other));
  }
}

/// The remedies if the inner sizes differ: all combinations of swapping and transposing that fit.
std::string what_would_fit(const product::Operands& operands) {
  const io::Matrix &a = *operands.a, &b = *operands.b;
  std::string ways;
  const auto add = [&](const std::string& way, std::uint64_t m, std::uint64_t n) {
    ways += fmt::format("{}{} (C is then {} x {})", ways.empty() ? "" : ", or ", way, m, n);
  };
  const auto turned = [&](bool turn_a, bool turn_b) {
    const bool at = operands.transpose_a != turn_a, bt = operands.transpose_b != turn_b;
    if ((at ? a.rows() : a.columns()) != (bt ? b.columns() : b.rows())) return;
    const std::string of_a = turn_a ? fmt::format("--gemm.transpose-a {}", at) : "";
    const std::string of_b = turn_b ? fmt::format("--gemm.transpose-b {}", bt) : "";
    add(fmt::format("pass {}{}{}", of_a, turn_a && turn_b ? " and " : "", of_b),
        at ? a.columns() : a.rows(), bt ? b.rows() : b.columns());
  };
  // Swapped, each with its own transposition.
  const std::uint64_t m = operands.transpose_b ? b.columns() : b.rows();
  const std::uint64_t n = operands.transpose_a ? a.rows() : a.columns();
  if ((operands.transpose_b ? b.rows() : b.columns()) ==
      (operands.transpose_a ? a.columns() : a.rows())) {
    add(fmt::format("swap input.a and input.b{}",
                    operands.transpose_a == operands.transpose_b
                        ? ""
                        : fmt::format(" and pass --gemm.transpose-a {} and --gemm.transpose-b {}",
                                      operands.transpose_b, operands.transpose_a)),
        m, n);
  }
  turned(true, false);
  turned(false, true);
  turned(true, true);
  return ways.empty()
             ? "name other matrices, since neither swapping nor transposing makes these fit"
             : ways;
}

/// `value` as a multiple of `granule`, at least one.
std::uint64_t nearest_multiple(double value, std::uint64_t granule) {
  const double multiples = std::round(value / static_cast<double>(granule));
  return std::max<std::uint64_t>(1, static_cast<std::uint64_t>(multiples)) * granule;
}

/// All three sizes grow by the cube root of `factor`: m and n to multiples of the base's tile, so
/// that the tiles of all ranks have one size, and k so that the work comes closest to `factor`.
Scaled scaled_sizes(const Options& options, double factor) {
  const auto m = options.count("gemm.m"), n = options.count("gemm.n"), k = options.count("gemm.k");
  const std::string& wanted = options.text("device.backend");
  const Backend backend =
      wanted == "host" || (wanted == "auto" && !built_with_cuda) ? Backend::host : Backend::cuda;
  constexpr std::array<std::string_view, 2> factors = {"input.a", "input.b"};
  const gemm::Tile tile = gemm::tile_for(m, n, k, product::precision_of(options, factors), backend);
  const double edge = std::cbrt(factor), area = static_cast<double>(m) * static_cast<double>(n);
  const std::uint64_t to_m = nearest_multiple(static_cast<double>(m) * edge, tile.m);
  const std::uint64_t to_n = nearest_multiple(static_cast<double>(n) * edge, tile.n);
  const double to_area = static_cast<double>(to_m) * static_cast<double>(to_n);
  const std::uint64_t granule = backend == Backend::host ? 8 : 256;
  const std::uint64_t to_k =
      nearest_multiple(static_cast<double>(k) * factor * area / to_area, granule);
  return {.options = {{"gemm.m", std::to_string(to_m)},
                      {"gemm.n", std::to_string(to_n)},
                      {"gemm.k", std::to_string(to_k)}},
          .factor = to_area * static_cast<double>(to_k) / (area * static_cast<double>(k))};
}

Scaled scaled_gemm(const Options& options, double factor, std::string_view grow) {
  for (const std::string_view key : {"input.a", "input.b", "input.c"}) {
    if (!io::names_file(options, key)) continue;
    throw UsageError(
        fmt::format("{0} is a file, and its matrix cannot grow in a weak scaling study: pass --{0} "
                    "uniform to generate it",
                    key));
  }
  if (factor == 1) return {};
  if (grow == "sizes") return scaled_sizes(options, factor);
  return scaled_count(options, fmt::format("gemm.{}", grow), factor);
}

/// Opens the C that is added, of the size of the product.
void open_c(const Options& options, product::Operands& operands) {
  const bool named = !options.text("input.c").empty();
  if (named != (operands.beta != 0)) {
    throw UsageError(named ? "input.c is given, but gemm.beta is 0: pass --gemm.beta too"
                           : fmt::format("gemm.beta is {}, but there is no C to add: name one "
                                         "with --input.c",
                                         options.text("gemm.beta")));
  }
  if (!named) return;
  operands.c =
      product::open_operand(options, operands.precision, "input.c", operands.m, operands.n);
  if (operands.c->rows() != operands.m || operands.c->columns() != operands.n) {
    throw UsageError(fmt::format("input.c: {}, but the product is {} x {}: name a C of that shape",
                                 product::extents(*operands.c), operands.m, operands.n));
  }
}

}  // namespace

product::Operands open_gemm(const Options& options) {
  reject_half_named(options);
  product::Operands operands;
  operands.transpose_a = options.flag("gemm.transpose-a");
  operands.transpose_b = options.flag("gemm.transpose-b");
  operands.alpha = options.number("gemm.alpha");
  operands.beta = options.number("gemm.beta");
  constexpr std::array<std::string_view, 2> factors = {"input.a", "input.b"};
  operands.precision = product::precision_of(options, factors);
  operands.moduli = product::moduli_of(options, operands.precision);
  operands.m = options.count("gemm.m");
  operands.n = options.count("gemm.n");
  operands.k = options.count("gemm.k");
  const auto open_a = [&] {
    const auto [down, across] = operands.transpose_a ? std::pair(operands.k, operands.m)
                                                     : std::pair(operands.m, operands.k);
    operands.a = product::open_operand(options, operands.precision, "input.a", down, across);
    operands.m = operands.transpose_a ? operands.a->columns() : operands.a->rows();
    operands.k = operands.transpose_a ? operands.a->rows() : operands.a->columns();
  };
  const auto open_b = [&] {
    const auto [down, across] = operands.transpose_b ? std::pair(operands.n, operands.k)
                                                     : std::pair(operands.k, operands.n);
    operands.b = product::open_operand(options, operands.precision, "input.b", down, across);
    operands.n = operands.transpose_b ? operands.b->rows() : operands.b->columns();
    const std::uint64_t k = operands.transpose_b ? operands.b->columns() : operands.b->rows();
    if (operands.a && k != operands.k) {
      throw UsageError(
          fmt::format("input.a and input.b: the inner sizes {} and {} differ ({}{}, {}{}): {}",
                      operands.k, k, product::extents(*operands.a),
                      operands.transpose_a ? ", transposed" : "", product::extents(*operands.b),
                      operands.transpose_b ? ", transposed" : "", what_would_fit(operands)));
    }
    operands.k = k;
  };
  // A generated operand takes the inner size of the other one's file.
  if (io::names_file(options, "input.a") || !io::names_file(options, "input.b")) {
    open_a();
    open_b();
  } else {
    open_b();
    open_a();
  }
  for (const auto& [size, matrix] :
       std::initializer_list<std::pair<const char*, const char*>>{{"gemm.m", "input.a"},
                                                                  {"gemm.k", "input.a"},
                                                                  {"gemm.k", "input.b"},
                                                                  {"gemm.n", "input.b"}}) {
    product::reject_size_of_file(options, size, matrix);
  }
  open_c(options, operands);
  return operands;
}

Workload gemm_workload() {
  return {.name = "gemm",
          .summary = "C = alpha A B + beta C",
          .example = "--input.a a.h5:/A --input.b b.h5:/B -o c.h5",
          .options = {product::option_rows(), gemm_rows},
          .honours = {"input.a", "input.b", "input.c", "measure.rates", "output.resume",
                      "output.store"},
          .data = {"input.a", "input.b", "input.c"},
          .sizes = {"gemm.m", "gemm.n", "gemm.k"},
          .open =
              [](const Options& options) {
                return product::open_task("gemm", options, open_gemm(options));
              },
          .grows = {"sizes", "m", "n", "k"},
          .scaled = scaled_gemm};
}

}  // namespace shardstream::workloads
