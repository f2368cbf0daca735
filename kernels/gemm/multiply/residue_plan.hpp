// Products of residues: what the plans of both backends have in common, and the plan for a host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "kernels/gemm/multiply/multiply.hpp"
#include "kernels/gemm/residues/residues.hpp"

namespace shardstream::gemm {

/// Some rows of a tile of C, which are computed at a time.
struct ResidueStrip {
  Residues a, b;                ///< of the rows of A and the columns of B
  ReconstructArgs reconstruct;  ///< makes the rows from products of `a` and `b`
};

/// The strip of `rows` rows from `first_row` on of the tile args.at[t]. `products`: as
/// ReconstructArgs::products.
inline ResidueStrip strip_of(const MultiplyArgs& args, Precision precision, const Tile& tile,
                             Backend backend, std::uint64_t t, std::uint64_t first_row,
                             std::uint64_t rows, const std::int32_t* products) {
  const TileAt at = args.at[t];
  const std::uint64_t row = at.row * tile.m + first_row, column = at.column * tile.n;
  const Residues a = args.residues.a.from(row, args.k), b = args.residues.b.from(column, args.k);
  const std::size_t element = panel_element_bytes(precision, backend);
  const std::uint64_t lda = a_ld(precision, args.k, backend);
  return {a,
          b,
          {.products = products,
           .precision = precision,
           .rows = rows,
           .columns = tile.n,
           .k = args.k,
           .moduli = tile.moduli,
           .a_exponents = a.exponents,
           .b_exponents = b.exponents,
           .a = static_cast<const std::byte*>(args.a) + row * lda * element,
           .b = static_cast<const std::byte*>(args.b) + column * element,
           .lda = lda,
           .ldb = args.ldb,
           .c = static_cast<std::byte*>(args.tiles) +
                (t * tile.m + first_row) * tile.n * accumulator_bytes(precision),
           .first = args.first}};
}

/// make_multiply_plan() for a host and a precision that multiplies residues. Each product of
/// residues is a product of floats, whose sums are exact.
std::unique_ptr<MultiplyPlan> make_residue_plan(Precision precision, const Tile& tile);

}  // namespace shardstream::gemm
