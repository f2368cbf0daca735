#include "workloads/product/engine/panel_rates.hpp"

#include <algorithm>
#include <exception>
#include <limits>
#include <numeric>
#include <optional>
#include <vector>

#include "core/shard.hpp"
#include "device/buffer.hpp"
#include "measure/sample.hpp"
#include "measure/source_ceilings.hpp"
#include "measure/track.hpp"
#include "pipeline/upload_ring.hpp"
#include "workloads/product/engine/copy_rows.hpp"

namespace shardstream::workloads::product {
namespace {

/// The pieces of an operand that readers copy. A piece is some rows of some columns.
struct OperandPieces {
  const io::Matrix* matrix;
  RowCopy copy;
  std::uint64_t rows;  ///< number of rows of a piece

  OperandPieces(const Operands& operands, gemm::Side side, Backend backend, bool held,
                std::size_t slot)
      : matrix(&operands.matrix(side)),
        copy{.type = matrix->type(),
             .precision = operands.precision,
             .backend = backend,
             .rounded = readers_round(operands, side, backend),
             .at_once = bytes_at_once(*matrix, held),
             .columns = 0,
             .element = 0} {
    copy.element = copy.rounded ? gemm::panel_element_bytes(operands.precision, backend)
                                : size_of(matrix->type());
    // A piece of a matrix with few rows has long ones.
    const std::uint64_t filling =
        slot / (matrix->rows() * std::max(copy.element, size_of(copy.type)));
    copy.columns = std::min(matrix->columns(), std::max<std::uint64_t>(filling, 8192));
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

/// A ceiling in GB/s from each rank's shortest repetition. `bytes`: of each rank in a repetition.
measure::Ceiling best_rate(const char* name, const std::vector<double>& bytes,
                           const measure::Samples& samples, double seconds) {
  std::vector<double> best = bytes;
  for (std::size_t rank = 0; rank < best.size(); ++rank) {
    double shortest = std::numeric_limits<double>::infinity();
    for (const measure::Repetition& each : samples.repetitions) {
      shortest = std::min(shortest, each.ranks[rank]);
    }
    best[rank] /= shortest * 1e9;
  }
  return {.name = name,
          .min = *std::ranges::min_element(best),
          .aggregate = std::accumulate(best.begin(), best.end(), 0.0),
          .unit = "GB/s",
          .by_rank = best,
          .seconds = seconds};
}

}  // namespace

/// The pieces of both operands.
class PanelReaders::Sample {
 public:
  Sample(runtime::Runtime& runtime, const Operands& operands, const pipeline::StagingSizes& staging,
         std::uint64_t bytes)
      : held_(pipeline::mode(runtime.options) == pipeline::Mode::pageable),
        a_(operands, gemm::Side::a, runtime.resources.backend, held_, staging.slot_bytes),
        b_(operands, gemm::Side::b, runtime.resources.backend, held_, staging.slot_bytes),
        share_of_b_(operands.symmetric ? 0 : b_.count() / (a_.count() + b_.count())) {
    if (!held_) return;
    memory_ = {*runtime.device, device::Memory::pageable, std::max<std::size_t>(bytes, room())};
  }

  /// Bytes of memory that a piece needs.
  std::size_t room() const { return std::max(a_.stored_bytes(), b_.stored_bytes()); }
  /// Bytes of an uploaded piece.
  std::size_t uploaded_bytes(std::uint64_t place) const {
    const OperandPieces& pieces = is_b(place) ? b_ : a_;
    return pieces.rows * pieces.copy.columns * pieces.copy.element;
  }
  /// Copies a piece to `to`, and returns its uploaded bytes. In a symmetric product B is A again.
  std::uint64_t copy(std::uint64_t place, std::byte* to) const {
    const std::uint64_t of_b = of_b_before(place);
    const std::byte* const from =
        held_ ? memory_.data() + place % (memory_.size() / room()) * room() : nullptr;
    return is_b(place) ? b_.copy_piece(of_b, from, to) : a_.copy_piece(place - of_b, from, to);
  }

 private:
  std::uint64_t of_b_before(std::uint64_t place) const {
    return static_cast<std::uint64_t>(share_of_b_ * static_cast<double>(place));
  }
  bool is_b(std::uint64_t place) const { return of_b_before(place + 1) > of_b_before(place); }

  bool held_;
  OperandPieces a_, b_;
  double share_of_b_;
  device::Buffer<std::byte> memory_;
};

PanelReaders::PanelReaders(runtime::Runtime& runtime, const Operands& operands,
                           const pipeline::StagingSizes& staging, std::uint64_t sample)
    : runtime_(runtime), staging_(staging) {
  runtime.session.collectively(
      [&] { sample_ = std::make_unique<const Sample>(runtime, operands, staging, sample); });
}

PanelReaders::~PanelReaders() = default;

measure::Ceiling PanelReaders::read(double seconds) const {
  return measure::read_rate(
      runtime_.session, "panel_read", staging_.readers, sample_->room(), seconds,
      [&](std::uint64_t place, std::byte* to) { return sample_->copy(place, to); });
}

measure::Ceiling PanelReaders::feed(double seconds, double rate, std::uint64_t device_bytes) const {
  constexpr std::uint64_t min_pieces = 2, batches = 4;  // of a reader; in device memory
  const ranks::Session& session = runtime_.session;
  const std::uint64_t room = sample_->room();
  const std::uint64_t in_batch =
      std::clamp<std::uint64_t>(device_bytes / batches / room, 1, staging_.readers);
  const auto wanted = static_cast<std::uint64_t>(seconds * rate * 1e9 / static_cast<double>(room));
  const std::uint64_t pieces =
      ceil_div(std::max(wanted, min_pieces * staging_.readers), in_batch) * in_batch;
  measure::Recorder recorder;
  std::optional<pipeline::UploadRing> ring;
  session.collectively([&] {
    ring.emplace(*runtime_.device, recorder,
                 pipeline::RingSizes{.slot_bytes = room,
                                     .slots = staging_.slots,
                                     .readers = staging_.readers,
                                     .batch_bytes = in_batch * room,
                                     .batches = batches},
                 &session.heartbeat());
  });
  const pipeline::UploadRing::Job job{
      .batches = pieces / in_batch,
      .pieces = pieces,
      .piece = [&](std::uint64_t number) -> pipeline::UploadPiece {
        return {number / in_batch, number % in_batch * room, sample_->uploaded_bytes(number)};
      },
      .read = [&](std::uint64_t number, std::byte* slot) -> const std::byte* {
        sample_->copy(number, slot);
        return slot;
      },
      .on_arrival = nullptr,
      .on_batch = nullptr};
  std::exception_ptr error;
  const measure::Samples samples =
      measure::sample(session, {.warmup = 1, .repetitions = 2}, [&](bool) {
        if (error) return;
        try {
          ring->run(job);
          ring->compute().synchronize();
        } catch (...) {
          error = std::current_exception();
        }
      });
  session.collectively([&] {
    if (error) std::rethrow_exception(error);
  });
  double bytes = 0;
  for (std::uint64_t i = 0; i < pieces; ++i)
    bytes += static_cast<double>(sample_->uploaded_bytes(i));
  return best_rate("panel_feed", session.gather(std::vector{bytes}), samples, seconds);
}

}  // namespace shardstream::workloads::product
