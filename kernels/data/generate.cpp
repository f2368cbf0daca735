#include "kernels/data/generate.hpp"

namespace shardstream {
namespace {

template <class T>
void fill_uniform(std::uint64_t stream, std::uint64_t first, std::uint64_t count, T* out) {
  for (std::uint64_t i = 0; i < count; ++i) out[i] = uniform_element<T>(stream, first + i);
}

template <class T>
void fill_ramp(std::uint64_t first, std::uint64_t count, T* out) {
  for (std::uint64_t i = 0; i < count; ++i) out[i] = ramp_element<T>(first + i);
}

}  // namespace

void generate(Generator generator, ElementType type, std::uint64_t seed, std::uint64_t first,
              std::uint64_t count, std::byte* out) {
  with_element_type(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* elements = reinterpret_cast<T*>(out);
    if (generator == Generator::uniform) {
      fill_uniform(stream_of(seed), first, count, elements);
    } else {
      fill_ramp(first, count, elements);
    }
  });
}

}  // namespace shardstream
