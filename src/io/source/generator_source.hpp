// A source whose elements are computed when they are read.
#pragma once

#include "core/error.hpp"
#include "io/source/row_major_source.hpp"
#include "kernels/data/generate.hpp"

namespace shardstream::io {

class GeneratorSource final : public RowMajorSource {
 public:
  /// Elements are numbered row-major in `shape`; every extent >= 1.
  GeneratorSource(Generator generator, ElementType type, const std::vector<std::uint64_t>& shape,
                  std::uint64_t seed)
      : RowMajorSource(shape),
        generator_(generator),
        type_(type),
        seed_(seed),
        name_(word_of(generator)),
        access_(generator == Generator::uniform ? "generated, seed " + std::to_string(seed)
                                                : "generated") {}

  const std::string& name() const override { return name_; }
  ElementType type() const override { return type_; }
  const std::string& access() const override { return access_; }
  std::uint64_t stored_bytes() const override { return 0; }
  void read(std::uint64_t first, std::uint64_t count, std::byte* out) const override {
    expect(first <= this->count() && count <= this->count() - first,
           "a range of elements ends inside its source");
    generate(generator_, type_, seed_, first, count, out);
  }

 private:
  Generator generator_;
  ElementType type_;
  std::uint64_t seed_;
  std::string name_, access_;
};

}  // namespace shardstream::io
