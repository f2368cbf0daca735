// The panels of A and B on the device: an uploaded batch becomes complete, checked panels on every
// rank that multiplies them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.hpp"
#include "device/buffer.hpp"
#include "kernels/gemm/residues/residues.hpp"
#include "pipeline/pipeline_options.hpp"
#include "runtime/runtime.hpp"
#include "workloads/product/data/operands.hpp"
#include "workloads/product/engine/normalization/normalization.hpp"
#include "workloads/product/engine/panel_uploads.hpp"
#include "workloads/product/plan/product_plan.hpp"

namespace shardstream::workloads::product {

/// The seed of the signs that every product is checked with.
inline constexpr std::uint64_t sign_seed = 0x73686172;

/// The ranks that share this rank's panels: A's in its grid row, B's in its grid column.
struct PanelGroups {
  /// Collective, so call it before anything that may throw on one rank. `all` must outlive this.
  PanelGroups(comm::Communicator& all, const Plan& plan);

  std::unique_ptr<comm::Communicator> own_row,
      own_column;                                 ///< null unless they had to be split off
  comm::Communicator *a = nullptr, *b = nullptr;  ///< null: no other rank has a part
};

/// Allocates once; a run starts with begin(). Runtime, operands, plan, groups and uploads must
/// outlive it.
class Panels {
 public:
  /// The panels of a batch, valid after arrive(). The check uses `a` and `y`. The products use
  /// `a_factor` and `b_factor`, which may point to the panels. The sums of variables use `a` and
  /// `b`.
  struct Batch {
    /// The depth of the block: columns of A's panel, and rows of B's. If ranks share B's panel,
    /// rows of padding may follow.
    std::uint64_t k = 0;
    const std::byte *a = nullptr, *b = nullptr;  ///< b is null if only its factor was kept
    std::uint64_t a_ld = 0;                      ///< elements from one row of A's panel to the next
    const double* y = nullptr;                   ///< SignedSumsArgs::y for all rows of the B panel
    const std::byte *a_factor = nullptr, *b_factor = nullptr;
    std::uint64_t b_factor_ld = 0;                    ///< MultiplyArgs::ldb
    gemm::Residues a_residues = {}, b_residues = {};  ///< if residues are multiplied
  };

  Panels(runtime::Runtime& runtime, const Operands& operands, const Plan& plan,
         const PanelGroups& groups, const PanelUploads& uploads);

  /// Bytes of device memory for shifts, scales, factors(), lost() and rounding_errors(), which the
  /// constructor allocates.
  static std::uint64_t other_bytes(const Operands& operands, const gemm::Tile& tile);
  /// Uploads the shifts and scales of all variables, and the shifts and factors of all samples.
  /// Call it before a run.
  void normalize(device::Stream& stream, const Normalization& normalization);
  const double* scales() const { return scale_.data(); }  ///< on the device
  /// On the device, one for each sample, then zeros for the padding of K. Null unless
  /// Operands::has_sample_factors().
  const double* factors() const { return factor_.data(); }
  /// CanonicalizeArgs::lost for the values that this rank has uploaded in the current run; on the
  /// device. Empty unless the product is normalized.
  const device::Buffer<std::uint8_t>& lost() const { return lost_; }

  /// The kind of the work of arrive(). If panels are gathered, it counts as communication, because
  /// the kernels are short in comparison.
  measure::PhaseKind arrival() const {
    const bool gathers = groups_.a != nullptr || groups_.b != nullptr;
    return gathers ? measure::PhaseKind::communication : measure::PhaseKind::useful;
  }

  /// The largest |line - rounded line| / |line| of the panels of A and of B in the current run, if
  /// residues are multiplied; on the device.
  const device::Buffer<double>& rounding_errors() const { return rounding_errors_; }

  /// Starts a run. No stream may use this object's memory.
  void begin(device::Stream& stream);
  /// Enqueues the work that turns the upload of batch `number` at `data` into panels. All ranks of
  /// a layer call it for the same batches in the same order, from the thread that owns the MPI
  /// session.
  void arrive(device::Stream& stream, std::uint64_t number, std::byte* data);
  /// The panels of one of the last `ring_batches` batches.
  const Batch& batch(std::uint64_t number) const { return memory_[number % memory_.size()].now; }

  /// Device memory with plan.shape.batch_checksums() checksums of each batch, batch by batch. They
  /// are complete once the batch has arrived. The first one is the checksum of the upload. The next
  /// ones are, in this order, those of A's parts as sent, A's parts as received, B's parts as sent
  /// and B's parts as received. A panel has them only if it is gathered and C's check cannot find
  /// errors in it.
  const std::uint64_t* device_checksums() const { return checksums_.data(); }
  /// A sentence about the first corrupted upload or gather of these batches; empty if there is
  /// none. `device_checksums` is a copy of their device_checksums(). Call it after their pieces
  /// have been read.
  std::string failure(Range batches, const std::uint64_t* device_checksums) const;

  /// Waits for the gathers, and for `stream`, whose work follows that of arrive().
  void wait(device::Stream& stream);

 private:
  /// The buffers of a batch in the ring, without the buffer of its upload.
  struct BatchMemory {
    device::Buffer<std::byte> a, b, a_factor, b_factor;
    device::Buffer<double> y;
    std::uint64_t* checksums = nullptr;  ///< of the batch that it holds
    Batch now;
  };
  /// The B factor of a block and its y, kept for the super-tiles after the first one.
  struct KeptB {
    device::Buffer<std::byte> factor;
    device::Buffer<double> y;
    std::uint64_t ld = 0;
  };

  void allocate_others(device::Device& device);
  const std::byte* arrive_a(device::Stream& stream, const BatchUpload& uploaded, std::byte* data,
                            BatchMemory& memory);
  const std::byte* arrive_b(device::Stream& stream, const BatchUpload& uploaded, std::byte* data,
                            BatchMemory& memory, const SuperTile& super_tile);
  static void add_upload(device::Stream& stream, const BatchUpload& uploaded, const std::byte* data,
                         std::uint64_t* checksum);
  static void add_checksum(device::Stream& stream, const std::byte* first, const PitchedRows& rows,
                           std::uint64_t* checksum);
  void gather(device::Stream& stream, comm::Communicator& parts, std::byte* panel,
              const PitchedRows& part, std::uint64_t* checksums) const;
  /// A rank's part of a panel: `rows` x `columns` of op(A) or op(B), with the pitch `ld`.
  struct PanelPart {
    gemm::Side side;
    const Rectangle& stored;  ///< what was uploaded
    Range rows, columns;
    std::uint64_t ld;
  };
  void make_panel(device::Stream& stream, const PanelPart& part, const std::byte* from,
                  std::byte* to) const;
  void make_b_factor(device::Stream& stream, const SuperTile& super_tile,
                     BatchMemory& memory) const;
  const std::byte* transpose_into_a(device::Stream& stream, const SuperTile& super_tile,
                                    std::byte* data, BatchMemory& memory) const;
  void keep_b(device::Stream& stream, const SuperTile& super_tile, BatchMemory& memory,
              KeptB& kept) const;
  void make_a_factor(device::Stream& stream, const SuperTile& super_tile,
                     BatchMemory& memory) const;
  gemm::Residues make_residues(device::Stream& stream, gemm::Side side, std::uint64_t lines,
                               const BatchMemory& memory) const;
  std::uint64_t* checksums_of(std::uint64_t batch) {
    return checksums_.data() + batch * plan_.shape.batch_checksums();
  }

  const Operands& operands_;
  const Plan& plan_;
  Backend backend_;
  std::size_t element_;  ///< bytes of an element of a panel
  const PanelGroups& groups_;
  const PanelUploads& uploads_;
  device::Buffer<double> shift_, scale_, factor_;
  device::Buffer<std::int64_t> whole_;
  device::Buffer<std::uint8_t> lost_;
  std::vector<BatchMemory> memory_;
  std::vector<KeptB> kept_;                  ///< one for each block if the plan keeps B
  device::Buffer<std::uint64_t> checksums_;  ///< device_checksums()
  device::Buffer<double> rounding_errors_;
};

}  // namespace shardstream::workloads::product
