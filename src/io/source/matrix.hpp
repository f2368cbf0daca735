// A matrix in a file or from a generator, row-major, read by rectangles.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/options.hpp"
#include "core/shard.hpp"
#include "io/source/source.hpp"

namespace shardstream::io {

/// The rows input.a, input.b and input.c.
std::span<const OptionRow> matrix_options();

/// The dimensions of a source that are the rows of a matrix, and those that are its columns, each
/// flattened row by row. Indices into Source::dimensions(), in ascending order. Together they are
/// all dimensions, besides those that an index removes.
struct MatrixDimensions {
  std::vector<std::size_t> rows, columns;
};

/// A source as a matrix. Destroy it before MPI_Finalize.
class Matrix {
 public:
  Matrix(std::unique_ptr<Source> source, MatrixDimensions dimensions);

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
  const MatrixDimensions& dimensions() const { return dimensions_; }
  /// The coordinates of an element in the data set.
  Extents coordinates(std::uint64_t row, std::uint64_t column) const;
  /// Whether read() reads past the page cache, as decided by prepare().
  bool past_cache() const {
    const auto reads = source_->file_reads();
    return reads && reads->past_cache;
  }

  /// Whether read() only copies bytes of a contiguous file through the page cache, so that short
  /// reads cost little.
  bool copies_from_cache() const {
    const auto reads = source_->file_reads();
    return reads && reads->is_exact && !reads->past_cache;
  }

  /// Announces the rows that this process will read, and decides whether to read them past the page
  /// cache. Not thread-safe: no thread may read meanwhile.
  void prepare(Range rows);

  /// Writes a rectangle to `out` with a pitch of `out_stride` bytes, a multiple of the element
  /// size. Bytes between the rows are not changed. Thread-safe. Throws Error with the matrix, the
  /// position and the reason.
  void read(Range rows, Range columns, std::byte* out, std::size_t out_stride) const;

 private:
  std::unique_ptr<Source> source_;
  MatrixDimensions dimensions_;
  std::uint64_t rows_, columns_;
};

/// Chooses the dimensions of a matrix. Throws UsageError if the source has no suitable ones; the
/// caller adds the name of the option.
using Arrangement = std::function<MatrixDimensions(const Source&)>;

/// The dimensions of a source as rows and columns: one dimension is a column. Throws UsageError if
/// there are more than two.
MatrixDimensions rows_and_columns(const Source& source);
/// The dimension `rows` as rows, and all others as columns.
MatrixDimensions one_and_others(const Source& source, std::size_t rows);
/// How a matrix is opened.
struct MatrixRequest {
  ElementType generated = ElementType::f32;  ///< of generated data if input.type is auto
  /// The remedy of read() for a value that does not fit input.type; if it is empty, the message
  /// suggests a type.
  std::string misfit_remedy = {};
  Arrangement arrange = rows_and_columns;
};

/// Opens the matrix that the option `key` names, one of matrix_options() or input.data. A generator
/// has `rows` x `columns` elements. Element (i, j) has the number i * columns + j in the sequence
/// of the seed: input.seed for input.data and input.a, input.seed + 1 for input.b, input.seed + 2
/// for input.c. A file determines its own shape. Throws UsageError for every error that can be
/// found before work starts, and if the option is empty.
std::unique_ptr<Matrix> open_matrix(const Options& options, std::string_view key,
                                    std::uint64_t rows, std::uint64_t columns,
                                    const MatrixRequest& request = {});

}  // namespace shardstream::io
