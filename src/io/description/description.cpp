#include "io/description/description.hpp"

#include "core/shard.hpp"

namespace shardstream::io {

ElementType natural_type(StoredType stored) {
  constexpr ElementType types[] = {ElementType::i8,  ElementType::u8,  ElementType::i32,
                                   ElementType::i32, ElementType::i32, ElementType::i64,
                                   ElementType::i64, ElementType::u64, ElementType::f32,
                                   ElementType::f64, ElementType::f32};
  return types[static_cast<std::size_t>(stored)];  // in the order of StoredType
}

std::uint64_t chunks_in(const Description& about) {
  std::uint64_t count = 1;
  for (std::size_t d = 0; d < about.box.size(); ++d) {
    count = saturating_product(count, ceil_div(about.shape[d], about.box[d]));
  }
  return count;
}

}  // namespace shardstream::io
