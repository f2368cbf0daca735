#include "workloads/product/engine/normalization/not_finite.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <mutex>
#include <type_traits>
#include <vector>

#include "core/parallel.hpp"
#include "core/shard.hpp"

namespace shardstream::workloads::product {
namespace {

/// The pieces of a matrix, in the order of its elements: some rows, or a part of one row.
struct MatrixPieces {
  std::uint64_t rows, columns, step_rows, step_columns;

  std::uint64_t in_row() const { return ceil_div(columns, step_columns); }
  std::uint64_t count() const { return ceil_div(rows, step_rows) * in_row(); }
  Range rows_of(std::uint64_t piece) const {
    return intersection({piece / in_row() * step_rows, step_rows}, {0, rows});
  }
  Range columns_of(std::uint64_t piece) const {
    return intersection({piece % in_row() * step_columns, step_columns}, {0, columns});
  }
};

MatrixPieces pieces_of(const io::Matrix& matrix) {
  constexpr std::uint64_t elements = std::uint64_t{1} << 20;
  const std::uint64_t columns = matrix.columns();
  return {.rows = matrix.rows(),
          .columns = columns,
          .step_rows = std::max<std::uint64_t>(1, elements / columns),
          .step_columns = std::min(columns, elements)};
}

bool is_before(const NotFinite& a, const NotFinite& b) {
  return a.row != b.row ? a.row < b.row : a.column < b.column;
}

class Search {
 public:
  Search(const Operands& operands, const Samples* samples)
      : operands_(operands),
        samples_(samples),
        left_out_(samples != nullptr ? left_out(operands, *samples) : std::vector<bool>()) {}

  /// Looks into a rectangle of the matrix. Thread-safe.
  template <class T>
  void look(Range rows, Range columns) {
    std::vector<T> stored(rows.count * columns.count);
    operands_.a->read(rows, columns, reinterpret_cast<std::byte*>(stored.data()),
                      columns.count * sizeof(T));
    for (std::uint64_t i = 0; i < stored.size(); ++i) {
      const auto x = static_cast<double>(stored[i]);
      if (std::isfinite(x)) continue;
      const NotFinite found{rows.first + i / columns.count, columns.first + i % columns.count, x};
      if (!counts(found)) continue;
      const std::lock_guard lock(mutex_);
      if (first_.empty() || is_before(found, first_[0])) first_ = {found};
      return;
    }
  }

  /// The first value that has been found, or nothing.
  const std::vector<NotFinite>& first() const { return first_; }

 private:
  bool counts(const NotFinite& found) const {
    if (std::isnan(found.value) && operands_.missing != Missing::propagate) return false;
    if (samples_ == nullptr) return true;
    const bool columns = operands_.transpose_a;  // variables are columns
    return samples_->counts(columns ? found.row : found.column) &&
           !left_out_[columns ? found.column : found.row];
  }

  const Operands& operands_;
  const Samples* samples_;
  std::vector<bool> left_out_;
  std::mutex mutex_;
  std::vector<NotFinite> first_;
};

}  // namespace

std::optional<NotFinite> first_not_finite(runtime::Runtime& runtime, const Operands& operands,
                                          const Samples* samples, unsigned readers) {
  const ranks::Session& session = runtime.session;
  const MatrixPieces pieces = pieces_of(*operands.a);
  const auto rank = static_cast<std::uint64_t>(session.rank());
  const std::uint64_t of_rank = 2 * readers;  // pieces of a round
  const auto of_all = static_cast<std::uint64_t>(session.sum(of_rank));
  const std::uint64_t before = [&] {
    std::uint64_t sum = 0;
    const std::vector<std::uint64_t> each = session.gather(std::vector{of_rank});
    for (std::uint64_t r = 0; r < rank; ++r) sum += each[r];
    return sum;
  }();
  return with_element_type(operands.a->type(), [&](auto tag) -> std::optional<NotFinite> {
    using T = typename decltype(tag)::type;
    if constexpr (!std::is_floating_point_v<T>) return std::nullopt;
    Search search(operands, samples);
    for (std::uint64_t round = 0; round < pieces.count(); round += of_all) {
      const Range own = intersection({round + before, of_rank}, {0, pieces.count()});
      session.collectively([&] {
        parallel_for(own.count, readers, [&](std::uint64_t i) {
          search.look<T>(pieces.rows_of(own.first + i), pieces.columns_of(own.first + i));
          session.heartbeat().move();
        });
      });
      const std::vector<NotFinite> found = session.gather(search.first());
      if (!found.empty()) return *std::ranges::min_element(found, is_before);
    }
    return std::nullopt;
  });
}

}  // namespace shardstream::workloads::product
