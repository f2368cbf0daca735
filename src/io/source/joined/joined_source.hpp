// Data sets of several files as one, joined along the first dimension. A file is opened when it is
// read. Its elements have the order that they have in the file.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "io/source/dataset/dataset_plan.hpp"
#include "io/source/joined/part_pool.hpp"
#include "io/source/source.hpp"

namespace shardstream::io {

/// The part of a joined data set that comes from one file. It has at least one element.
struct JoinedPart {
  DatasetPlan plan;      ///< its axes are those of the part
  std::uint64_t offset;  ///< of the file's first row in the joined data set
  Range rows, elements;  ///< selected indices of the first dimension; elements of the source
};

class JoinedSource final : public Source {
 public:
  /// `dimensions` are those of the joined data set. The parts follow one another without a gap, and
  /// agree as expect_joinable() requires.
  JoinedSource(std::string name, std::vector<SourceDimension> dimensions,
               std::vector<JoinedPart> parts, DatasetRequest request);

  void prepare(Range elements) override;

  const std::string& name() const override { return name_; }
  ElementType type() const override { return parts_.front().plan.conversion.to; }
  const std::vector<SourceDimension>& dimensions() const override { return dimensions_; }
  const Extents& box() const override { return box_; }
  Extents coordinates(std::uint64_t index) const override;
  std::vector<ElementOrder::Block> blocks(std::uint64_t first, std::uint64_t count) const override;
  const std::string& access() const override { return access_; }
  std::optional<Decoding> decoding() const override { return decoding_; }
  std::optional<FileReads> file_reads() const override { return reads_; }
  void visit_stored(Range elements, const UseBytes& use) const override;
  std::uint64_t stored_bytes() const override;

  void read(std::uint64_t first, std::uint64_t count, std::byte* out) const override;
  void read_block(const Extents& start, const Extents& extent, const Pitches& pitch,
                  std::byte* out) const override;
  std::uint64_t slot_bytes(std::uint64_t count) const override;
  const std::byte* read_stored(std::uint64_t first, std::uint64_t count,
                               std::byte* slot) const override;
  std::uint64_t convert(std::uint64_t first, std::uint64_t count, const std::byte* stored,
                        std::byte* out) const override;

 private:
  /// Elements of one part.
  struct PartElements {
    std::size_t part;
    Range elements;        ///< within the part
    std::uint64_t offset;  ///< of its first one from the first of all pieces
  };
  std::vector<PartElements> pieces_of(Range elements) const;
  std::unique_ptr<DatasetSource> open_part(std::size_t number) const;
  void expect_direct_reads() const;
  void copy_stored(const PartElements& piece, std::byte* to) const;
  void set_access(ReadWay way);

  std::string name_, access_;
  std::vector<SourceDimension> dimensions_;
  Extents box_;
  std::vector<JoinedPart> parts_;
  DatasetRequest request_;  // its way is that of all parts
  const bool may_choose_way_;
  Range prepared_{0, 0};
  FileReads reads_{.is_exact = false, .past_cache = false};
  std::optional<Decoding> decoding_;
  std::shared_ptr<DecodingMemory> memory_;
  mutable std::optional<PartPool> pool_;
};

}  // namespace shardstream::io
