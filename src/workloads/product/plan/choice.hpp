// Which way to cut a product, and which box of ranks. Behind plan.hpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "workloads/product/plan/shape.hpp"

namespace shardstream::workloads {

/// A way to compute a product in one box.
struct Choice {
  Decomposition decomposition = Decomposition::rows;
  Shape shape;
  Cut cut;
  Extents extents;
  std::uint64_t ring = 1, window = 1;
  GemmTimes prediction;
};

/// All that were considered, and the chosen one with a sentence on why.
struct Choices {
  std::optional<Choice> chosen;
  std::string why;
  std::vector<GemmAlternative> considered;
};

/// "rows", "grid 2 x 4", "split-k 2 x 1 x 4".
std::string words_of(Decomposition decomposition, const Box& box);

/// As plan_gemm() says, and with its errors; there is a chosen one.
Choices choose(const GemmProblem& problem, const GemmRates& rates);

/// Of the first super-tile to the last.
GemmTimes predict(const Shape& shape, const GemmRates& rates, const std::vector<Pass>& passes,
                  std::uint64_t ring, std::uint64_t window);

/// The largest window that a ring allows, of batches of one segment of K. With split-k there is
/// none but the last batch: tiles leave once their sums have been exchanged.
std::uint64_t max_window(const Shape& shape, std::uint64_t ring);

}  // namespace shardstream::workloads
