// Means and squares of a data set's variables: one pass over a matrix larger than the device, by
// all ranks, before its product with itself is centred or scaled; and what that takes of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/shard.hpp"
#include "device/buffer.hpp"
#include "io/source/matrix.hpp"
#include "kernels/gemm/grid.hpp"
#include "pipeline/options.hpp"
#include "pipeline/upload_ring.hpp"
#include "runtime/runtime.hpp"
#include "workloads/product/engine/product.hpp"
#include "workloads/product/operands.hpp"

namespace shardstream::workloads {

/// Allocates once; run() may be repeated. Runtime and matrix must outlive it. The results are those
/// of the last run, the same bits on every rank, for any number of ranks and any memory.
///
/// The matrix is cut by its shape alone: into units, each the work of one kernel call, and these
/// into at most some hundred tasks, each with sums of its own: some variables, some samples. A rank
/// takes whole tasks; the sums over a variable's samples are folded in the order of its tasks.
class Moments {
 public:
  /// Bytes of device memory that it has use for: a function of the shape and the type alone. The
  /// sums, at most some 16 MiB, and batches of at most 64 MiB.
  static std::uint64_t device_bytes(const io::Matrix& matrix, bool variables_are_rows);

  /// Bytes of host memory that it takes on any rank: its slots, and all ranks' sums.
  static std::uint64_t host_bytes(const io::Matrix& matrix, bool variables_are_rows,
                                  const pipeline::Ring& staging);

  /// A variable is a row of the matrix, or a column. Throws UsageError where `device_bytes` do not
  /// hold two batches of up to 2 MiB and the sums.
  Moments(runtime::Runtime& runtime, const io::Matrix& matrix, bool variables_are_rows,
          std::uint64_t device_bytes, const pipeline::Ring& staging);

  /// Streams the matrix through the device, each rank a part of it. Collective. Throws Error where
  /// what was uploaded is not what was read, and what the matrix throws: on this rank alone.
  void run();

  /// Of each variable. What is not finite makes its variable's values not finite.
  const std::vector<double>& means() const { return means_; }
  /// Sum of (x - mean)^2. Loses digits where the first sample is very far from the mean: relative
  /// error some 2^-53 (1 + ((first - mean) / deviation)^2).
  const std::vector<double>& squares() const { return squares_; }
  /// Sum of x^2.
  const std::vector<double>& raw_squares() const { return raw_squares_; }

  /// Bytes that this rank uploads in one run.
  std::uint64_t uploaded() const { return uploaded_; }

 private:
  /// How the shape is cut. Cells are units of variables and of samples.
  struct Cut {
    std::uint64_t variables, samples;
    std::uint64_t cell_variables, cell_samples;  ///< of one unit
    std::uint64_t blocks, groups;                ///< of variable cells, of sample cells

    Cut(const io::Matrix& matrix, bool variables_are_rows);
    std::uint64_t units() const;
    std::uint64_t elements() const { return cell_variables * cell_samples; }  ///< of one at most
    std::uint64_t tasks() const { return blocks * groups; }
    Range variable_cells(std::uint64_t task) const;
    Range sample_cells(std::uint64_t task) const;
    Range variables_of(Range cells) const;
    Range samples_of(Range cells) const;
  };
  struct Unit {
    std::uint64_t task;
    Range variables, samples;
    bool first;  ///< of its task, for these variables
  };
  Unit unit(std::uint64_t number) const;
  Range rows(const Unit& unit) const { return rows_ ? unit.variables : unit.samples; }
  Range columns(const Unit& unit) const { return rows_ ? unit.samples : unit.variables; }
  std::size_t bytes(const Unit& unit) const {
    return unit.variables.count * unit.samples.count * element_;
  }
  Range tasks_of(std::uint64_t rank) const { return share(cut_.tasks(), rank, ranks_); }
  std::uint64_t sums_of(Range tasks) const { return starts_[tasks.end()] - starts_[tasks.first]; }

  void number_units();
  pipeline::RingSizes ring_sizes(std::uint64_t device_bytes, const pipeline::Ring& staging);
  std::vector<double> first_sample() const;
  const std::byte* read(std::uint64_t number, std::byte* slot);
  void compute(device::Stream& stream, std::uint64_t number, const std::byte* data);
  void check_words() const;
  void fold(const std::vector<double>& shift);

  runtime::Runtime& runtime_;
  const io::Matrix& matrix_;
  bool rows_;  ///< whether these are variables
  std::size_t element_;
  std::uint64_t rank_, ranks_;
  Cut cut_;
  std::vector<std::uint64_t> starts_;  ///< of each task's sums, among all tasks', and their number
  Range own_;                          ///< tasks
  std::vector<std::uint64_t> first_unit_;  ///< of each own task, and the number of own units
  std::size_t unit_bytes_;                 ///< of the largest
  std::uint64_t uploaded_ = 0;

  device::Buffer<double> shift_, sums_, squares_there_, sums_here_, squares_here_;
  device::Buffer<std::uint64_t> words_, words_here_;  ///< of each own unit
  std::vector<std::uint64_t> read_words_;             ///< the same, by the readers
  std::vector<double> means_, squares_, raw_squares_;
  pipeline::UploadRing ring_;  ///< last: its streams end before the buffers go
};

/// What the elements of each variable become before they are multiplied: (x - shift) * scale.
struct Normalization {
  std::vector<double> shift, scale;  ///< empty: none
  std::uint64_t constant = 0;        ///< variables whose scale is 0, since they have no deviation
};
/// The deviation is the root of the mean square over the divisor that alpha has: around the mean if
/// the operands are centred, else around 0.
Normalization normalization(const GemmOperands& operands, const Moments& moments);

/// Allocates once; run() may be repeated. For operands that are normalized. Runtime and operands
/// must outlive it.
class Normalizer {
 public:
  /// Of device memory, with what the product keeps of it: no share of what there is, since the size
  /// that would do, where too little is refused, must do. 0 where nothing is normalized.
  static std::uint64_t device_bytes(const GemmOperands& operands, const gemm::Tile& tile);

  Normalizer(runtime::Runtime& runtime, const GemmOperands& operands,
             const pipeline::Ring& staging);

  /// Finds the means and deviations and gives them to the product, which must not be running.
  /// Collective. Throws what Moments::run() throws.
  void run(GemmProduct& product);

  std::uint64_t constant() const { return constant_; }  ///< variables of the last run
  /// Bytes that this rank uploads in one run.
  std::uint64_t uploaded() const { return moments_.uploaded(); }

 private:
  const GemmOperands& operands_;
  Moments moments_;
  std::uint64_t constant_ = 0;
};

}  // namespace shardstream::workloads
