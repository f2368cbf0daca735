#include "workloads/product/engine/normalization/first_samples.hpp"

#include <algorithm>

namespace shardstream::workloads::product {

FirstSamples::FirstSamples(const Samples& samples, std::uint64_t all, std::uint64_t begin) {
  for (std::uint64_t s = begin; s < all && count_ < first_samples; ++s) {
    if (!samples.counts(s)) continue;
    if (runs_.empty() || runs_.back().end() != s) runs_.push_back({s, 0});
    ++runs_.back().count;
    ++count_;
    if (samples.shift.empty()) continue;
    shifts_.push_back({samples.whole_shift.empty() ? 0 : samples.whole_shift[s], samples.shift[s]});
  }
}

std::vector<std::byte> FirstSamples::read(const Operands& operands, Range variables) const {
  const bool columns = operands.transpose_a;  // variables are columns
  const std::size_t element = size_of(operands.a->type());
  const std::size_t row_bytes = (columns ? variables.count : count_) * element;
  std::vector<std::byte> stored(variables.count * count_ * element);
  std::uint64_t before = 0;
  for (const Range run : runs_) {
    std::byte* const to = stored.data() + before * (columns ? row_bytes : element);
    operands.a->read(columns ? run : variables, columns ? variables : run, to, row_bytes);
    before += run.count;
  }
  return stored;
}

bool any_missing(ElementType type, std::span<const std::byte> stored) {
  return with_element_type(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto* const x = reinterpret_cast<const T*>(stored.data());
    return std::any_of(x, x + stored.size() / sizeof(T), [](T each) { return each != each; });
  });
}

}  // namespace shardstream::workloads::product
