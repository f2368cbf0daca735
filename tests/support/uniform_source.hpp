// A matrix of uniform floats, for sources that change how it is read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "io/source/generator_source.hpp"

namespace shardstream::test {

class UniformSource : public io::RowMajorSource {
 public:
  UniformSource(std::uint64_t rows, std::uint64_t columns)
      : RowMajorSource({rows, columns}),
        inner_(Generator::uniform, ElementType::f32, {rows, columns}, 1) {}

  const std::string& name() const override { return inner_.name(); }
  ElementType type() const override { return inner_.type(); }
  const std::string& access() const override { return inner_.access(); }
  std::uint64_t stored_bytes() const override { return 0; }
  void read(std::uint64_t first, std::uint64_t count, std::byte* out) const override {
    inner_.read(first, count, out);
  }

 private:
  io::GeneratorSource inner_;
};

}  // namespace shardstream::test
