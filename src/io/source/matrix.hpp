// A matrix in an HDF5 file or from a generator, row-major, read by rectangles.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/options.hpp"
#include "core/shard.hpp"
#include "io/source/source.hpp"

namespace shardstream::io {

/// The rows of [input] that name matrices: a, b, c.
std::span<const OptionRow> matrix_options();

/// A source of two dimensions, or of one, which is a column. To be destroyed before MPI_Finalize.
class Matrix {
 public:
  /// `source` has one or two dimensions.
  explicit Matrix(std::unique_ptr<Source> source);

  /// "x.h5:/A" or "uniform".
  const std::string& name() const { return source_->name(); }
  /// The type that read() delivers: the stored one, or what input.type says.
  ElementType type() const { return source_->type(); }
  std::uint64_t rows() const { return rows_; }
  std::uint64_t columns() const { return columns_; }
  const std::string& access() const { return source_->access(); }
  const Origin& origin() const { return source_->origin(); }
  std::uint64_t stored_bytes() const { return source_->stored_bytes(); }
  std::optional<Decoding> decoding() const { return source_->decoding(); }
  /// Whether read() goes past the page cache, as prepare() has chosen.
  bool past_cache() const {
    const auto stored = source_->stored({0, 1});
    return stored && stored->past_cache;
  }

  /// Says which rows this process will read, before it does: the way past the page cache may be
  /// taken for them. For one thread, while none reads.
  void prepare(Range rows);

  /// Writes a rectangle to `out`, its rows `out_stride` bytes apart (a multiple of the element's
  /// size); what lies between them stays as it is. Several threads at once. Throws Error naming the
  /// matrix, the place and the reason.
  void read(Range rows, Range columns, std::byte* out, std::size_t out_stride) const {
    source_->read_rectangle(rows, columns, out, out_stride);
  }

 private:
  std::unique_ptr<Source> source_;
  std::uint64_t rows_, columns_;
};

/// Opens what the option `key` names, one of matrix_options() or input.data. A generator makes
/// `rows` x `columns` elements of `generated` where input.type is auto, element (i, j) being number
/// i * columns + j after input.seed for input.data and input.a, input.seed + 1 for input.b,
/// input.seed + 2 for input.c; a file has the extents that it has. `misfit_remedy` is what read()
/// advises where a value does not fit input.type; empty: a better type. Throws UsageError for
/// everything that can be seen before work starts, and where nothing is named.
std::unique_ptr<Matrix> open_matrix(const Options& options, std::string_view key,
                                    std::uint64_t rows, std::uint64_t columns,
                                    ElementType generated = ElementType::f32,
                                    const std::string& misfit_remedy = {});

}  // namespace shardstream::io
