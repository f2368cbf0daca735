// The choice of a box of ranks, and of the best schedule in it. Used by make_plan().
#pragma once

#include <string>
#include <vector>

#include "workloads/product/plan/prediction.hpp"

namespace shardstream::workloads::product {

/// A decomposition that was considered.
struct Alternative {
  Decomposition decomposition = Decomposition::rows;
  Box box;
  double seconds = 0;   ///< predicted; 0 if it is impossible
  std::string why_not;  ///< why it is impossible; else empty
};

/// The chosen decomposition. The same on every rank.
struct Decision {
  Decomposition decomposition = Decomposition::rows;  ///< never automatic
  std::string why;                                    ///< the reason, as a phrase
  std::vector<Alternative> alternatives;              ///< all that were considered
};

struct Choice {
  Decision decision;
  Shape shape;
  Schedule schedule;
  TimePrediction prediction;
};

/// Chooses as src/workloads/product/DESIGN.md describes, and throws the errors of make_plan().
Choice choose(const Problem& problem, const Rates& rates);

}  // namespace shardstream::workloads::product
