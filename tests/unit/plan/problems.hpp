// Problems for the tests of plans, and helpers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "support/errors.hpp"
#include "workloads/product/plan/description.hpp"

namespace shardstream::workloads::product {

inline constexpr std::uint64_t KiB = 1024, MiB = 1024 * KiB, GiB = 1024 * MiB;
/// About an H200's, in fp64.
inline constexpr Rates rates{.link_up = 50e9, .link_down = 50e9, .gather = 200e9, .flops = 60e12};

Problem problem_of(std::uint64_t m, std::uint64_t n, std::uint64_t k, gemm::Precision precision,
                   Backend backend, std::uint64_t ranks, std::uint64_t memory);
/// Small tiles, so that small shapes have many.
Problem small_tiles(std::uint64_t m, std::uint64_t n, std::uint64_t k, std::uint64_t ranks);

/// Bytes that the error names; nothing if the problem fits.
std::optional<std::uint64_t> demanded(const Problem& problem, std::uint64_t rank = 0);
/// The error of make_plan().
std::string error_of_plan(const Problem& problem);

/// Whether K has several segments, so that layers can share it.
bool can_split(Problem problem);
/// The plans of all ranks.
std::vector<Plan> plans_of(const Problem& problem);

/// A problem as each rank plans it.
struct Planned {
  Problem problem;
  std::vector<Plan> plans;
};
/// Some hundred problems: shapes, decompositions, kinds of panels and numbers of ranks in turn, and
/// more ranks than there are rows of tiles. Planned once for all tests.
const std::vector<Planned>& many_planned();

/// The plan as text.
std::string text_of(const Plan& plan);
/// The first alternative of this kind that was considered; null if there is none.
const Alternative* alternative(const Plan& plan, Decomposition decomposition);

}  // namespace shardstream::workloads::product
