#include "workloads/product/engine/copy_rows.hpp"

#include "device/buffer.hpp"
#include "kernels/gemm/panel/checksum.hpp"
#include "kernels/gemm/panel/round_elements.hpp"
#include "measure/source_ceilings.hpp"

namespace shardstream::workloads::product {
namespace {

/// The pieces of an operand that readers copy. A piece is some rows of some columns.
struct Pieces {
  const io::Matrix* matrix;
  RowCopy copy;
  std::uint64_t rows;  ///< number of rows of a piece

  Pieces(const Operands& operands, gemm::Side side, Backend backend, bool held, std::size_t slot)
      : matrix(&operands.matrix(side)),
        copy{.type = matrix->type(),
             .precision = operands.precision,
             .backend = backend,
             .rounded = readers_round(operands, side, backend),
             .at_once = bytes_at_once(*matrix, held),
             .columns = std::min<std::uint64_t>(matrix->columns(), 8192),
             .element = 0} {
    copy.element = copy.rounded ? gemm::panel_element_bytes(operands.precision, backend)
                                : size_of(matrix->type());
    rows =
        std::min(matrix->rows(), rows_per_piece(slot, stored_row(), copy.columns * copy.element));
  }

  std::size_t stored_row() const { return copy.columns * size_of(copy.type); }
  std::size_t stored_bytes() const { return rows * stored_row(); }
  /// The number of pieces, with a fraction for the last ones.
  double count() const {
    return static_cast<double>(matrix->rows()) / static_cast<double>(rows) *
           (static_cast<double>(matrix->columns()) / static_cast<double>(copy.columns));
  }

  /// Copies piece `number`, and starts over after the last one. Returns the bytes that would be
  /// uploaded. `held`: the piece in memory; null: it is read from its source.
  std::uint64_t copy_piece(std::uint64_t number, const std::byte* held, std::byte* room) const {
    const std::uint64_t down = matrix->rows() / rows, across = matrix->columns() / copy.columns;
    const std::uint64_t row = number % down * rows;
    const std::uint64_t column = number / down % across * copy.columns;
    (void)copy_rows(copy, rows, room, [&](Range some, std::byte* to) {
      if (held != nullptr) return held + some.first * stored_row();
      matrix->read({row + some.first, some.count}, {column, copy.columns}, to, stored_row());
      return static_cast<const std::byte*>(to);
    });
    return rows * copy.columns * copy.element;
  }
};

}  // namespace

std::size_t bytes_at_once(const io::Matrix& matrix, bool held) {
  constexpr std::size_t long_row = std::size_t{4} << 10, in_core_cache = std::size_t{128} << 10;
  if (held) return long_row;
  return matrix.copies_from_cache() ? in_core_cache : SIZE_MAX;
}

std::uint64_t convert_elements(const RowCopy& copy, const std::byte* from, std::uint64_t count,
                               std::byte* to) {
  if (copy.rounded) {
    return gemm::round_elements(copy.type, copy.precision, copy.backend, from, count, to);
  }
  const std::uint64_t bytes = count * copy.element;
  return from == to ? gemm::word_checksum(to, bytes) : gemm::copy_with_checksum(from, bytes, to);
}

bool readers_round(const Operands& operands, gemm::Side side, Backend backend) {
  return !operands.normalizes() &&
         gemm::readers_round(operands.matrix(side).type(), operands.precision, backend);
}

measure::Ceiling panel_read(runtime::Runtime& runtime, const Operands& operands,
                            const pipeline::StagingSizes& staging, std::uint64_t sample,
                            double seconds) {
  const Backend backend = runtime.resources.backend;
  const bool held = pipeline::mode(runtime.options) == pipeline::Mode::pageable;
  const Pieces a(operands, gemm::Side::a, backend, held, staging.slot_bytes);
  const Pieces b(operands, gemm::Side::b, backend, held, staging.slot_bytes);
  const std::size_t room = std::max(a.stored_bytes(), b.stored_bytes());
  device::Buffer<std::byte> memory;
  runtime.session.collectively([&] {
    if (held)
      memory = {*runtime.device, device::Memory::pageable, std::max<std::size_t>(sample, room)};
  });
  // In a symmetric product B is A again.
  const double share = operands.symmetric ? 0 : b.count() / (a.count() + b.count());
  const auto of_b_before = [&](std::uint64_t place) {
    return static_cast<std::uint64_t>(share * static_cast<double>(place));
  };
  return measure::read_rate(runtime.session, "panel_read", staging.readers, room, seconds,
                            [&](std::uint64_t place, std::byte* to) {
                              const std::uint64_t of_b = of_b_before(place);
                              const bool is_b = of_b_before(place + 1) > of_b;
                              const Pieces& pieces = is_b ? b : a;
                              const std::byte* const from =
                                  held ? memory.data() + place % (memory.size() / room) * room
                                       : nullptr;
                              return pieces.copy_piece(is_b ? of_b : place - of_b, from, to);
                            });
}

}  // namespace shardstream::workloads::product
