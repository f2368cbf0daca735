// The common interface of the workloads `gemm` and `gram`: options, operands, the problem, and the
// task of a matrix product.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/options.hpp"
#include "io/output/checkpoint.hpp"
#include "pipeline/pipeline_options.hpp"
#include "runtime/runtime.hpp"
#include "workloads/product/data/operands.hpp"
#include "workloads/product/plan/product_plan.hpp"
#include "workloads/workload.hpp"

namespace shardstream::workloads::product {

/// The options of all products.
std::span<const OptionRow> option_rows();

/// The precision that holds all values of a type, except for integers beyond 2^53.
gemm::Precision safe_precision(ElementType type);

/// A note if the matrix has integers of 64 bits in a file, which the product may round; else empty.
/// The shift of centred data is subtracted before that.
std::string note_on_rounding(const io::Matrix& matrix, const Operands& operands);

/// product.precision. `auto` is replaced by the precision that can represent all values of the
/// matrices. `keys` are the options that name the matrices. Throws UsageError if a matrix cannot be
/// opened.
gemm::Precision precision_of(const Options& options, std::span<const std::string_view> keys);

/// Operands::moduli. Throws UsageError if product.planes is given but no residues are multiplied.
unsigned moduli_of(const Options& options, gemm::Precision precision);

/// Opens the matrix that option `key` names, with io::open_matrix(). A generated matrix has the
/// type that the precision needs. `arrange` is MatrixRequest::arrange.
std::unique_ptr<io::Matrix> open_operand(const Options& options, gemm::Precision precision,
                                         std::string_view key, std::uint64_t rows,
                                         std::uint64_t columns,
                                         const io::Arrangement& arrange = io::rows_and_columns);

/// Throws UsageError if the option `matrix` names a file, but the option `size`, which is only for
/// generated matrices, is given on the command line.
void reject_size_of_file(const Options& options, std::string_view size, std::string_view matrix);

/// "x.h5:/A is 4096 x 1024".
std::string extents(const io::Matrix& matrix);

/// The files of all operands, with warnings and notes.
io::Origin inputs_of(const Operands& operands);

/// Throws UsageError if a matrix product cannot run with pipeline.mode.
void check_mode(const Options& options);

/// Throws UsageError if the precision does not allow the type or the sizes of an operand.
void check_operands(const Operands& operands);

/// Throws UsageError unless gemm::has_units().
void check_units(gemm::Precision precision, int compute_capability);

/// The device memory that a rank may use.
struct DeviceMemory {
  std::uint64_t limit = 0;
  std::uint64_t host_bytes = 0;  ///< Ranks::host_bytes
};
/// Follows from pipeline.gpu-memory and the resources of the rank.
DeviceMemory device_memory_of(const Operands& operands, const Options& options,
                              const runtime::Resources& resources);

/// The problem for `ranks` ranks. It includes the options product.decomposition, product.box and
/// output.store.
Problem problem_of(const Operands& operands, const Options& options, std::uint64_t ranks,
                   DeviceMemory memory, Backend backend);

/// The staging of a rank. Sets read_bytes, written_bytes and writers of `problem.ranks`, from the
/// CPUs of this rank. If pipeline.slot is auto, slots are smaller if the product is small, so that
/// all readers end at about the same time, and slots of C have at most 4096 rows.
pipeline::StagingSizes stage(Problem& problem, const Options& options,
                             const runtime::Resources& resources);

/// A warning about ranks that compute nothing, with reason and remedy; empty if every rank
/// computes. The plan leaves them idle, or they are in the box but have no tile of C. The latter
/// still upload.
std::string idle_ranks(const Plan& plan);

/// The precision with which a GPU is predicted to multiply fp64 or fp32 faster from residues, at
/// rates in the ratio that is assumed without measurements.
std::optional<FasterChoice> faster_precision(const Plan& plan, const Rates& rates,
                                             int compute_capability = 0);

/// All warnings that are known before the product is computed.
std::vector<std::string> warnings_of(const Operands& operands, const Plan& plan);

/// Everything that determines C's bits, by name, and the properties that identify input files.
/// `name` is the name of the workload. The function run() adds the entries `of_machine`.
io::Fingerprint fingerprint(const Operands& operands, const Options& options,
                            const std::string& name, const Plan& plan);
inline constexpr std::array<std::string_view, 2> of_machine = {"device", "library"};

/// The task of the workload `name`. `name` and `options` must outlive it. Throws UsageError if the
/// precision does not allow the type of an operand or the sizes.
std::unique_ptr<Task> open_task(std::string_view name, const Options& options, Operands operands);

}  // namespace shardstream::workloads::product
