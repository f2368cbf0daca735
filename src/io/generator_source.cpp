#include "io/generator_source.hpp"

#include <fmt/format.h>

#include "core/error.hpp"

namespace shardstream::io {

GeneratorSource::GeneratorSource(Generator generator, ElementType type,
                                 const std::vector<std::uint64_t>& shape, std::uint64_t seed)
    : generator_(generator),
      type_(type),
      seed_(seed),
      name_(name_of(generator)),
      access_(generator == Generator::uniform ? fmt::format("generated, seed {}", seed)
                                              : "generated"),
      order_(shape, shape) {}

void GeneratorSource::read(std::uint64_t first, std::uint64_t count, std::byte* out) const {
  expect(first <= order_.count() && count <= order_.count() - first,
         "a range of elements ends inside its source");
  generate(generator_, type_, seed_, first, count, out);
}

}  // namespace shardstream::io
