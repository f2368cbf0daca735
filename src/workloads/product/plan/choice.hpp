// The choice of a box of ranks and of super-tiles. Used by make_plan().
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "workloads/product/plan/cuts.hpp"

namespace shardstream::workloads::product {

/// A way to compute a product in one box.
struct Choice {
  Decomposition decomposition = Decomposition::rows;
  Shape shape;
  Cut cut;
  Extents extents;
  std::uint64_t ring = 1, window = 1;  ///< Schedule::ring_batches and window
  TimePrediction prediction;
};

/// All alternatives, the chosen one, and the reason for it (Decision::why).
struct Choices {
  std::optional<Choice> chosen;
  std::string why;
  std::vector<Alternative> considered;
};

/// "rows", "grid 2 x 4", "split-k 2 x 1 x 4".
std::string words_of(Decomposition decomposition, const Box& box);

/// Chooses as make_plan() describes, and throws its errors. `chosen` has a value in the result.
Choices choose(const Problem& problem, const Rates& rates);

}  // namespace shardstream::workloads::product
