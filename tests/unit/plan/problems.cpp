#include "unit/plan/problems.hpp"

#include <algorithm>

#include "core/units.hpp"

namespace shardstream::workloads::product {
namespace {

/// With memory for everything, for a good part of it, and for hardly a tile.
std::vector<Problem> with_less_and_less_memory(Problem problem) {
  std::vector<Problem> all{problem};
  const std::uint64_t whole = make_plan(problem, rates, 0).device_bytes;
  problem.ranks.device_memory = 1;
  const std::uint64_t min = demanded(problem).value();
  for (const std::uint64_t more : {whole / 2, whole / 3, whole / 7, std::uint64_t{0}}) {
    problem.ranks.device_memory = std::max(min, more);
    all.push_back(problem);
  }
  return all;
}

/// All shapes, decompositions, kinds of panels and numbers of ranks in turn, more ranks than there
/// are rows of tiles among them.
std::vector<Problem> many_problems() {
  std::vector<Problem> all;
  const auto add = [&](Problem problem) {
    const std::uint64_t number = all.size() / 5;
    problem.a.raw = number % 3 == 1;
    problem.b.raw = number % 5 > 2;
    if (problem.a.raw) problem.a.element_bytes = 8;
    if (problem.b.raw) problem.b.element_bytes = 1;
    problem.reads_c = number % 4 == 0 && !problem.symmetric;
    problem.stores_c = number % 7 != 0;
    problem.ranks.other_bytes = number % 7 * KiB;
    if (number % 3 == 0) problem.tile.k = 64;  // K may begin with shallower blocks
    if (number % 4 == 1 && problem.precision == gemm::Precision::fp32) problem.tile.lanes = 4;
    for (const Problem& each : with_less_and_less_memory(problem)) all.push_back(each);
  };
  const std::uint64_t edges[] = {1, 13, 135, 208};
  std::uint64_t number = 0;
  for (const std::uint64_t m : edges) {
    for (const std::uint64_t n : edges) {
      for (const std::uint64_t k : {1, 13, 135, 1100}) {
        for (std::uint64_t ranks = 1 + number % 2; ranks <= 9; ranks += 2) {
          Problem problem = small_tiles(m, n, k, ranks);
          const Decomposition kinds[] = {Decomposition::rows, Decomposition::grid,
                                         Decomposition::automatic, Decomposition::split_k};
          problem.requested.decomposition = kinds[(number + ranks / 2) % 4];
          if (problem.requested.decomposition == Decomposition::split_k && !can_split(problem))
            continue;
          problem.precision = number % 3 == 0 ? gemm::Precision::fp32x3 : gemm::Precision::fp32;
          add(problem);
        }
        ++number;
      }
    }
  }
  for (const std::uint64_t m : {1, 13, 17, 33, 60, 135, 208}) {
    for (const std::uint64_t k : {13, 300, 2000}) {
      for (std::uint64_t ranks = 1; ranks <= 6; ++ranks) {
        Problem problem = small_tiles(m, m, k, ranks);
        problem.symmetric = true;
        problem.requested.decomposition =
            ranks == 3 ? Decomposition::automatic : Decomposition::rows;
        if (ranks == 2 && can_split(problem))
          problem.requested.decomposition = Decomposition::split_k;
        add(problem);
      }
    }
  }
  for (const Box& box : {Box{2, 1, 2}, {1, 2, 2}, {3, 1, 2}, {2, 2, 2}, {1, 1, 3}, {2, 3, 1}}) {
    for (const std::uint64_t ranks : {box.ranks(), box.ranks() + 2}) {  // two of them idle
      for (const auto& [m, n] : {std::pair(60, 30), {13, 100}, {90, 90}}) {
        Problem problem = small_tiles(m, n, 1000, ranks);
        problem.requested.box = box;
        add(problem);
        problem.symmetric = m == n && box.columns == 1;
        if (problem.symmetric) add(problem);
      }
    }
  }
  return all;
}

}  // namespace

bool can_split(Problem problem) {
  problem.requested.decomposition = Decomposition::rows;
  problem.requested.box.reset();
  problem.ranks.device_memory = UINT64_MAX;
  return make_plan(problem, rates, 0).shape.segments > 1;
}

std::vector<Plan> plans_of(const Problem& problem) {
  std::vector<Plan> plans;
  for (std::uint64_t rank = 0; rank < problem.ranks.count; ++rank) {
    plans.push_back(make_plan(problem, rates, rank));
  }
  return plans;
}

Problem problem_of(std::uint64_t m, std::uint64_t n, std::uint64_t k, gemm::Precision precision,
                   Backend backend, std::uint64_t ranks, std::uint64_t memory) {
  const std::uint64_t element = gemm::panel_element_bytes(precision, backend);
  return {.m = m,
          .n = n,
          .k = k,
          .precision = precision,
          .a = {element},
          .b = {element},
          .tile = gemm::tile_for(m, n, k, precision, backend),
          .ranks = {.count = ranks, .device_memory = memory, .backend = backend}};
}

Problem small_tiles(std::uint64_t m, std::uint64_t n, std::uint64_t k, std::uint64_t ranks) {
  Problem problem = problem_of(m, n, k, gemm::Precision::fp32, Backend::host, ranks, GiB);
  problem.tile = {16, 16, 32};
  return problem;
}

std::optional<std::uint64_t> demanded(const Problem& problem, std::uint64_t rank) {
  try {
    make_plan(problem, rates, rank);
  } catch (const UsageError& error) {
    const std::string text = error.what(), before = "--pipeline.gpu-memory ";
    const auto start = text.find(before) + before.size();
    return parse_size(text.substr(start, text.find(' ', start) - start));
  }
  return std::nullopt;
}

std::string error_of_plan(const Problem& problem) {
  return test::error_of([&] { make_plan(problem, rates, 0); });
}

const std::vector<Planned>& many_planned() {
  static const std::vector<Planned> all = [] {
    std::vector<Planned> planned;
    for (Problem& problem : many_problems()) {
      std::vector<Plan> plans = plans_of(problem);
      planned.push_back({std::move(problem), std::move(plans)});
    }
    return planned;
  }();
  return all;
}

std::string text_of(const Plan& plan) {
  std::string text;
  for (const auto& part : {answer(plan), describe(plan)}) {
    for (const std::string& line : part) text += line + "\n";
  }
  return text;
}

const Alternative* alternative(const Plan& plan, Decomposition decomposition) {
  for (const Alternative& each : plan.decision.alternatives) {
    if (each.decomposition == decomposition) return &each;
  }
  return nullptr;
}

}  // namespace shardstream::workloads::product
