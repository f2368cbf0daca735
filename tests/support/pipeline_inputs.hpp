// Sources for tests of the pipeline: known values, a read that fails on demand, and a conversion.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>

#include "io/source/dataset/dataset_source.hpp"
#include "io/source/row_major_source.hpp"

namespace shardstream::test {

struct ReadFailed : std::runtime_error {
  ReadFailed() : std::runtime_error("the test's source cannot be read") {}
};

/// Element i is 3 i + 1, as i64. Reading element `fails_at` throws ReadFailed. In a slot the
/// elements begin `head` bytes behind its start.
class RampSource final : public io::RowMajorSource {
 public:
  explicit RampSource(std::uint64_t count,
                      std::uint64_t fails_at = std::numeric_limits<std::uint64_t>::max(),
                      std::uint64_t head = 0)
      : RowMajorSource({count}), fails_at_(fails_at), head_(head) {}

  static std::int64_t value(std::uint64_t index) {
    return 3 * static_cast<std::int64_t>(index) + 1;
  }

  const std::string& name() const override { return name_; }
  ElementType type() const override { return ElementType::i64; }
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
  const std::byte* read_stored(std::uint64_t first, std::uint64_t count,
                               std::byte* slot) const override {
    read(first, count, slot + head_);
    return slot + head_;
  }

 private:
  std::string name_ = "ramp of the tests";
  std::uint64_t fails_at_, head_;
};

/// Packed data: i16, of which every seventh element is missing, unpacked as f64. In a slot the
/// elements begin `head` bytes behind its start. A type that is not f64 might not have all values.
class PackedSource final : public io::DatasetSource {
 public:
  explicit PackedSource(std::uint64_t count, std::uint64_t head = 0,
                        ElementType to = ElementType::f64)
      : DatasetSource("packed data of the tests", how(to), io::unnamed_dimensions({count}), {count},
                      {"i16"}),
        head_(head) {}

  static Conversion how(ElementType to) {
    return {.from = StoredType::i16,
            .to = to,
            .missing = {.value = {static_cast<std::uint16_t>(marker)}, .count = 1},
            .unpacking = {.scale = 0.5, .offset = 100, .multiplies = true, .adds = true}};
  }
  static bool is_missing(std::uint64_t index) { return index % 7 == 3; }
  static std::int16_t stored_value(std::uint64_t index) {
    return is_missing(index) ? marker : static_cast<std::int16_t>(index % 20'011) - 10'000;
  }
  /// NaN for a missing value.
  static double value(std::uint64_t index) {
    return is_missing(index) ? std::numeric_limits<double>::quiet_NaN()
                             : stored_value(index) * 0.5 + 100;
  }

  std::uint64_t stored_bytes() const override { return 0; }
  std::uint64_t slot_bytes(std::uint64_t count) const override {
    return head_ + count * sizeof(std::int16_t);
  }
  const std::byte* read_stored(std::uint64_t first, std::uint64_t count,
                               std::byte* slot) const override {
    fetch(first, count, slot + head_);
    return slot + head_;
  }

 protected:
  void fetch(std::uint64_t first, std::uint64_t count, std::byte* out) const override {
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::int16_t stored = stored_value(first + i);
      std::memcpy(out + i * sizeof stored, &stored, sizeof stored);
    }
  }

 private:
  void fetch_block(const io::Extents& start, const io::Extents& extent, const io::Pitches&,
                   std::byte* out) const override {
    fetch(start[0], extent[0], out);
  }

  static constexpr std::int16_t marker = -32767;

  std::uint64_t head_;
};

/// The same data as if they came from files of `per_file` elements, each of which has one of three
/// conversions: that of PackedSource; another one; none at all.
class PackedFiles final : public io::RowMajorSource {
 public:
  static constexpr std::uint64_t per_file = 100;

  explicit PackedFiles(std::uint64_t count, std::uint64_t head = 0)
      : RowMajorSource({count}), packed_(count, head) {
    io::Conversions conversions;
    for (std::uint64_t first = 0; first < count; first += per_file) {
      conversions.add(std::min(per_file, count - first), conversion_of(first));
    }
    set_conversions(std::move(conversions));
  }

  static bool is_missing(std::uint64_t index) {
    const std::uint64_t kind = index / per_file % 3;
    return kind == 0   ? PackedSource::is_missing(index)
           : kind == 1 ? stored_value(index) > max_valid
                       : false;
  }
  static std::int16_t stored_value(std::uint64_t index) {
    return PackedSource::stored_value(index);
  }
  /// NaN for a missing value.
  static double value(std::uint64_t index) {
    if (is_missing(index)) return std::numeric_limits<double>::quiet_NaN();
    const Unpacking how = conversion_of(index).unpacking;
    return stored_value(index) * how.scale + how.offset;
  }

  const std::string& name() const override { return packed_.name(); }
  ElementType type() const override { return ElementType::f64; }
  const std::string& access() const override { return packed_.access(); }
  std::uint64_t stored_bytes() const override { return 0; }
  std::uint64_t slot_bytes(std::uint64_t count) const override { return packed_.slot_bytes(count); }
  void read(std::uint64_t first, std::uint64_t count, std::byte* out) const override {
    for (std::uint64_t i = 0; i < count; ++i) {
      const double element = value(first + i);
      std::memcpy(out + i * sizeof element, &element, sizeof element);
    }
  }
  const std::byte* read_stored(std::uint64_t first, std::uint64_t count,
                               std::byte* slot) const override {
    return packed_.read_stored(first, count, slot);
  }
  std::uint64_t convert(std::uint64_t first, std::uint64_t count, const std::byte* stored,
                        std::byte* out) const override {
    std::uint64_t missing = 0;
    conversions().visit({first, count}, [&](Range elements, const Conversion& how) {
      const std::uint64_t offset = elements.first - first;
      missing += shardstream::convert(how, stored + offset * stored_size(), elements.count,
                                      out + offset * sizeof(double))
                     .missing;
    });
    return missing;
  }

 private:
  static constexpr std::int16_t max_valid = -9850;

  static Conversion conversion_of(std::uint64_t index) {
    Conversion how = PackedSource::how(ElementType::f64);
    if (index / per_file % 3 == 0) return how;
    how.missing = {};
    how.unpacking = {};
    if (index / per_file % 3 == 1) {
      how.missing = {.has_max = true, .max = static_cast<std::uint16_t>(max_valid)};
      how.unpacking = {.scale = 0.25, .multiplies = true};
    }
    return how;
  }

  PackedSource packed_;
};

}  // namespace shardstream::test
