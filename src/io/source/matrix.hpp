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

/// The rows input.a, input.b and input.c.
std::span<const OptionRow> matrix_options();

/// A source of two dimensions, or of one dimension, which is a column. Destroy it before
/// MPI_Finalize.
class Matrix {
 public:
  /// `source` has one or two dimensions.
  explicit Matrix(std::unique_ptr<Source> source);

  /// "x.h5:/A" or "uniform".
  const std::string& name() const { return source_->name(); }
  /// The type that read() returns: the stored type, or input.type.
  ElementType type() const { return source_->type(); }
  std::uint64_t rows() const { return rows_; }
  std::uint64_t columns() const { return columns_; }
  const std::string& access() const { return source_->access(); }
  const Origin& origin() const { return source_->origin(); }
  std::uint64_t stored_bytes() const { return source_->stored_bytes(); }
  std::optional<Decoding> decoding() const { return source_->decoding(); }
  const Source& source() const { return *source_; }
  /// Whether read() reads past the page cache, as decided by prepare().
  bool past_cache() const {
    const auto stored = source_->stored({0, 1});
    return stored && stored->past_cache;
  }

  /// Whether read() only copies bytes of a contiguous file through the page cache, so that short
  /// reads cost little.
  bool copies_from_cache() const {
    const auto stored = source_->stored({0, 1});
    return stored && stored->is_exact && !stored->past_cache;
  }

  /// Announces the rows that this process will read, and decides whether to read them past the page
  /// cache. Not thread-safe: no thread may read meanwhile.
  void prepare(Range rows);

  /// Writes a rectangle to `out` with a pitch of `out_stride` bytes, a multiple of the element
  /// size. Bytes between the rows are not changed. Thread-safe. Throws Error with the matrix, the
  /// position and the reason.
  void read(Range rows, Range columns, std::byte* out, std::size_t out_stride) const {
    source_->read_rectangle(rows, columns, out, out_stride);
  }

 private:
  std::unique_ptr<Source> source_;
  std::uint64_t rows_, columns_;
};

/// Opens the matrix that the option `key` names, one of matrix_options() or input.data. A generator
/// has `rows` x `columns` elements, of type `generated` if input.type is auto. Element (i, j) has
/// the number i * columns + j in the sequence of the seed: input.seed for input.data and input.a,
/// input.seed + 1 for input.b, input.seed + 2 for input.c. A file determines its own shape.
/// `misfit_remedy` is the remedy of read() for a value that does not fit input.type; if it is
/// empty, the message suggests a type. Throws UsageError for every error that can be found before
/// work starts, and if the option is empty.
std::unique_ptr<Matrix> open_matrix(const Options& options, std::string_view key,
                                    std::uint64_t rows, std::uint64_t columns,
                                    ElementType generated = ElementType::f32,
                                    const std::string& misfit_remedy = {});

}  // namespace shardstream::io
