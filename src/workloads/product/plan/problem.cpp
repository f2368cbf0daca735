#include "workloads/product/plan/problem.hpp"

#include <fmt/format.h>

#include <array>

namespace shardstream::workloads::product {

std::string words_of(Decomposition decomposition, const Box& box) {
  if (decomposition == Decomposition::grid) {
    return fmt::format("grid {} x {}", box.rows, box.columns);
  }
  std::string text(word_of(decomposition));
  if (box.depth > 1) text += fmt::format(" {} x {} x {}", box.rows, box.columns, box.depth);
  return text;
}

std::string text_of(const Box& box) {
  return fmt::format("{}x{}x{}", box.rows, box.columns, box.depth);
}

std::string_view word_of(Decomposition decomposition) {
  constexpr std::array<std::string_view, 4> names = {"auto", "rows", "grid", "split-k"};
  return names[static_cast<std::size_t>(decomposition)];
}

}  // namespace shardstream::workloads::product
