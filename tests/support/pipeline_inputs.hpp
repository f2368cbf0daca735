// A source for tests of the pipeline: known values, and a read that fails on demand.
#pragma once

#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>

#include "io/source/source.hpp"

namespace shardstream::test {

struct ReadFailed : std::runtime_error {
  ReadFailed() : std::runtime_error("the test's source cannot be read") {}
};

/// Element i is 3 i + 1, as i64. Reading element `fails_at` throws ReadFailed. In a slot the
/// elements begin `head` bytes behind its start.
class RampSource final : public io::Source {
 public:
  explicit RampSource(std::uint64_t count,
                      std::uint64_t fails_at = std::numeric_limits<std::uint64_t>::max(),
                      std::uint64_t head = 0)
      : order_({count}, {count}), fails_at_(fails_at), head_(head) {}

  static std::int64_t value(std::uint64_t index) {
    return 3 * static_cast<std::int64_t>(index) + 1;
  }

  const std::string& name() const override { return name_; }
  ElementType type() const override { return ElementType::i64; }
  const io::ElementOrder& order() const override { return order_; }
  const std::string& access() const override { return name_; }
  std::uint64_t stored_bytes() const override { return 0; }
  void read(std::uint64_t first, std::uint64_t count, std::byte* out) const override {
    if (first <= fails_at_ && fails_at_ < first + count) throw ReadFailed();
    auto* values = reinterpret_cast<std::int64_t*>(out);
    for (std::uint64_t i = 0; i < count; ++i) values[i] = value(first + i);
  }
  std::uint64_t slot_bytes(std::uint64_t count) const override {
    return head_ + count * sizeof(std::int64_t);
  }
  const std::byte* read_into(std::uint64_t first, std::uint64_t count,
                             std::byte* slot) const override {
    read(first, count, slot + head_);
    return slot + head_;
  }

 private:
  std::string name_ = "ramp of the tests";
  io::ElementOrder order_;
  std::uint64_t fails_at_, head_;
};

}  // namespace shardstream::test
