// A matrix product from its operands to its outcome: what `gemm` and `gram` share.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "core/options.hpp"
#include "io/output/checkpoint.hpp"
#include "runtime/runtime.hpp"
#include "workloads/product/operands.hpp"
#include "workloads/product/plan/plan.hpp"
#include "workloads/workload.hpp"

namespace shardstream::workloads {

/// The rows of options that all products share.
std::span<const OptionRow> product_options();

/// product.precision; auto is the precision that holds the values of the matrices that `keys` name.
/// Throws UsageError if one cannot be opened.
gemm::Precision precision_of(const Options& options, std::span<const std::string_view> keys);

/// io::open_matrix() as the precision wants it.
std::unique_ptr<io::Matrix> open_operand(const Options& options, gemm::Precision precision,
                                         std::string_view key, std::uint64_t rows,
                                         std::uint64_t columns);

/// Throws UsageError if the option `size` of generated matrices is given on the command line and
/// the option `matrix` names a file.
void reject_size_of_file(const Options& options, std::string_view size, std::string_view matrix);

/// "x.h5:/A is 4096 x 1024".
std::string extents(const io::Matrix& matrix);

/// The files of all operands.
io::Origin inputs_of(const GemmOperands& operands);

/// Throws UsageError if the type or the sizes of an operand are not for the precision.
void check_operands(const GemmOperands& operands);

/// The arithmetic that is to be done on `ranks` ranks, each of which may use `device_memory` bytes,
/// as product.decomposition and output.store want it.
GemmProblem problem_of(const GemmOperands& operands, const Options& options, std::uint64_t ranks,
                       std::uint64_t device_memory, bool on_host);

/// Which ranks the plan leaves idle, or how many compute nothing since they have no tile of C (in
/// the box they upload), in a sentence with the reason and the remedy; empty if all have some.
std::string idle_ranks(const GemmPlan& plan);

/// All that C's bits are a function of, by name, and what tells that a file is another one; but for
/// `of_machine`, which are known where it computes. `name` is the workload's.
io::Fingerprint fingerprint(const GemmOperands& operands, const Options& options,
                            const std::string& name, const GemmPlan& plan);
inline constexpr std::array<std::string_view, 2> of_machine = {"device", "library"};

/// Computes C. `name` is the workload's. Called by all ranks. Throws AgreedError when options and
/// machine do not fit together; Error when a rank's data cannot be read or written.
Outcome run_product(runtime::Runtime& runtime, const GemmOperands& operands,
                    const std::string& name, const Sinks& sinks);

/// The task of the workload `name`, which must outlive it, as must `options`. Throws UsageError if
/// an operand's type or the sizes are not for the precision.
std::unique_ptr<Task> open_product(std::string_view name, const Options& options,
                                   GemmOperands operands);

}  // namespace shardstream::workloads
