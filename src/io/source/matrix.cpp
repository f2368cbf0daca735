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

Matrix::Matrix(std::unique_ptr<Source> source) : source_(std::move(source)) {
  const auto& shape = source_->order().shape();
  expect(shape.size() <= 2, "a matrix has one or two dimensions");
  rows_ = shape[0];
  columns_ = shape.size() == 2 ? shape[1] : 1;
}

void Matrix::prepare(Range rows) {
  source_->prepare({rows.first * columns_, rows.count * columns_});
}

std::unique_ptr<Matrix> open_matrix(const Options& options, std::string_view key,
                                    std::uint64_t rows, std::uint64_t columns,
                                    ElementType generated, const std::string& misfit_remedy) {
  auto source = open_source(options, {.key = key,
                                      .shape = {rows, columns},
                                      .type = generated,
                                      .seed = seed_of(options, key),
                                      .misfit_remedy = misfit_remedy});
  const auto& shape = source->order().shape();
  if (shape.size() > 2) {
    throw UsageError(fmt::format(
        "{}: {} has {} dimensions ({}): name a data set with two, or with one for a column", key,
        source->name(), shape.size(), join(shape, "x")));
  }
  return std::make_unique<Matrix>(std::move(source));
}

}  // namespace shardstream::io
