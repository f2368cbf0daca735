#include "workloads/product/plan/segments.hpp"

#include <algorithm>
#include <bit>

namespace shardstream::workloads::product {

namespace {

bool siblings(const TreeNode& left, const TreeNode& right) {
  return left.height == right.height && left.index % 2 == 0 && right.index == left.index + 1;
}

}  // namespace

std::uint64_t count_segments(const Problem& problem) {
  // Residues have the same segments on every backend, those of a GPU.
  const gemm::Tile tile = problem.tile.moduli == 0
                              ? problem.tile
                              : gemm::tile_for(problem.m, problem.n, problem.k, problem.precision,
                                               Backend::cuda, problem.symmetric);
  if (!gemm::is_tall(problem.m, problem.n, problem.k, tile)) return 1;
  const std::uint64_t tiles =
      saturating_product({ceil_div(problem.m, tile.m), ceil_div(problem.n, tile.n)});
  return std::bit_floor(
      std::min({std::uint64_t{64}, ceil_div(problem.k, tile.k), std::uint64_t{512} / tiles}));
}

std::uint64_t NodeStack::push(TreeNode node) {
  std::uint64_t folds = 0;
  for (; !nodes_.empty() && siblings(nodes_.back(), node); ++folds) {
    node = {node.height + 1, node.index / 2};
    nodes_.pop_back();
  }
  nodes_.push_back(node);
  return folds;
}

}  // namespace shardstream::workloads::product
