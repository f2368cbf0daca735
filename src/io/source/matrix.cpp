#include "io/source/matrix.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.hpp"
#include "core/text.hpp"

namespace shardstream::io {
namespace {

constexpr OptionRow named_rows[] = {
    {"input.a", OptionKind::text, "uniform", "",
     "Matrix A: FILE:/PATH, FILE (if it has only one data set), or a generator, uniform or ramp."},
    {"input.b", OptionKind::text, "uniform", "",
     "Matrix B, like input.a; uniform uses the seed input.seed + 1. If one operand is a file, name "
     "the other one too (for example uniform)."},
    {"input.c", OptionKind::text, "", "",
     "Matrix C, to which the product is added, like input.a; uniform uses the seed input.seed + "
     "2."},
};

/// The seed of a generated matrix. The matrices a, b and c have different seeds; input.data has
/// input.seed.
std::uint64_t seed_of(const Options& options, std::string_view key) {
  const auto* const row = std::ranges::find(named_rows, key, &OptionRow::key);
  const bool is_only = row == std::end(named_rows);
  return options.count("input.seed") +
         (is_only ? 0 : static_cast<std::uint64_t>(row - std::begin(named_rows)));
}

}  // namespace

std::span<const OptionRow> matrix_options() {
  return named_rows;
}

MatrixDimensions rows_and_columns(const Source& source) {
  const std::vector<std::size_t> kept = kept_dimensions(source);
  if (kept.size() > 2) {
    throw UsageError(fmt::format(
        "{} has {} dimensions ({}): name a data set with two, or with one for a column, or select "
        "one index of each of the others",
        source.name(), kept.size(), shape_text(source)));
  }
  return kept.empty() ? MatrixDimensions{} : one_and_others(source, kept[0]);
}

MatrixDimensions one_and_others(const Source& source, std::size_t rows) {
  MatrixDimensions made{.rows = {rows}, .columns = kept_dimensions(source)};
  std::erase(made.columns, rows);
  return made;
}

Matrix::Matrix(std::unique_ptr<Source> source, MatrixDimensions dimensions)
    : source_(std::move(source)), dimensions_(std::move(dimensions)) {
  const auto size = [&](const std::vector<std::size_t>& some) {
    std::uint64_t count = 1;
    for (const std::size_t d : some) count *= source_->dimensions()[d].axis.count;
    return count;
  };
  rows_ = size(dimensions_.rows);
  columns_ = size(dimensions_.columns);
  expect(rows_ * columns_ == source_->count(), "a matrix has all elements of its source");
}

Extents Matrix::coordinates(std::uint64_t row, std::uint64_t column) const {
  Extents made;
  for (const SourceDimension& each : source_->dimensions()) made.push_back(each.axis.first);
  const auto add = [&](const std::vector<std::size_t>& some, std::uint64_t number) {
    for (std::size_t i = some.size(); i-- > 0;) {
      const Axis& axis = source_->dimensions()[some[i]].axis;
      made[some[i]] += number % axis.count * axis.step;
      number /= axis.count;
    }
  };
  add(dimensions_.rows, row);
  add(dimensions_.columns, column);
  return made;
}

/// A source is prepared by indices of its first dimension, as if it was numbered row by row.
void Matrix::prepare(Range rows) {
  const std::uint64_t all = source_->dimensions()[0].axis.count, width = source_->count() / all;
  Range first{0, all};
  if (rows.count == 0) {
    first = {0, 0};
  } else if (!dimensions_.rows.empty() && dimensions_.rows[0] == 0) {
    const std::uint64_t each = rows_ / all;
    first = {rows.first / each, (rows.end() - 1) / each + 1 - rows.first / each};
  }
  source_->prepare({first.first * width, first.count * width});
}

void Matrix::read(Range rows, Range columns, std::byte* out, std::size_t out_stride) const {
  expect(rows.first <= rows_ && rows.count <= rows_ - rows.first && columns.first <= columns_ &&
             columns.count <= columns_ - columns.first,
         "a rectangle ends inside its matrix");
  const std::size_t element = size_of(type());
  expect(out_stride % element == 0 && out_stride / element >= columns.count,
         "the rows of a rectangle are whole elements apart and do not overlap");
  if (rows.count == 0 || columns.count == 0) return;
  // Flattened dimensions are numbered like the elements of a box.
  const auto blocks = [&](const std::vector<std::size_t>& some, Range range) {
    Extents shape;
    for (const std::size_t d : some) shape.push_back(source_->dimensions()[d].axis.count);
    if (shape.empty()) shape = {1};
    return ElementOrder(shape, shape).blocks(range.first, range.count);
  };
  const std::size_t rank = source_->dimensions().size();
  std::byte* to_row = out;
  for (const auto& in_rows : blocks(dimensions_.rows, rows)) {
    std::byte* to = to_row;
    for (const auto& in_columns : blocks(dimensions_.columns, columns)) {
      Extents start(rank, 0), extent(rank, 1);
      Pitches pitch(rank, element);
      const auto place = [&](const std::vector<std::size_t>& some, const ElementOrder::Block& block,
                             std::uint64_t step) {
        const Pitches inside = dense_pitches(block.extent, step);
        for (std::size_t i = 0; i < some.size(); ++i) {
          start[some[i]] = block.start[i];
          extent[some[i]] = block.extent[i];
          pitch[some[i]] = inside[i];
        }
      };
      place(dimensions_.rows, in_rows, out_stride);
      place(dimensions_.columns, in_columns, element);
      source_->read_block(start, extent, pitch, to);
      to += in_columns.count * element;
    }
    to_row += in_rows.count * out_stride;
  }
}

std::unique_ptr<Matrix> open_matrix(const Options& options, std::string_view key,
                                    std::uint64_t rows, std::uint64_t columns,
                                    const MatrixRequest& request) {
  auto source = open_source(options, {.key = key,
                                      .shape = {rows, columns},
                                      .type = request.generated,
                                      .seed = seed_of(options, key),
                                      .misfit_remedy = request.misfit_remedy});
  try {
    MatrixDimensions dimensions = request.arrange(*source);
    return std::make_unique<Matrix>(std::move(source), std::move(dimensions));
  } catch (const UsageError& error) {
    throw UsageError(fmt::format("{}: {}", key, error.what()));
  }
}

}  // namespace shardstream::io
