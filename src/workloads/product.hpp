// A matrix product from its operands to its outcome: what `gemm` and `gram` share.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "core/options.hpp"
#include "io/checkpoint.hpp"
#include "io/dataset_file.hpp"
#include "runtime/runtime.hpp"
#include "workloads/gemm_operands.hpp"
#include "workloads/gemm_plan.hpp"
#include "workloads/outcome.hpp"

namespace shardstream::workloads {

/// gemm.precision.
gemm::Precision precision_of(const Options& options);

/// io::open_matrix() as the precision wants it.
std::unique_ptr<io::Matrix> open_operand(const Options& options, std::string_view key,
                                         std::uint64_t rows, std::uint64_t columns);

/// "x.h5:/A is 4096 x 1024".
std::string extents(const io::Matrix& matrix);

/// Calls `open` on every rank and looks at what it has opened. Throws AgreedError where it throws,
/// where an operand's type or the sizes are not for the precision, and where the operands differ
/// between ranks. Collective.
GemmOperands open_product(const launch::Session& session,
                          const std::function<GemmOperands()>& open);

/// The files of all operands.
io::Origin inputs_of(const GemmOperands& operands);

/// What open_product() looks at on one rank. Throws UsageError.
void check_operands(const GemmOperands& operands);

/// The arithmetic that is to be done on `ranks` ranks, each of which may use `device_memory` bytes,
/// as gemm.decomposition and output.store want it.
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

/// Whether runs with these options leave something to go on from: those that compute C once.
bool leaves_checkpoint(const Options& options);

/// Computes C. `name` is the workload's; `to` is where C goes, null if it is not stored; the same
/// on all ranks. Called by all ranks. Throws AgreedError when options and machine do not fit
/// together; Error when a rank's data cannot be read or written.
Outcome run_product(runtime::Runtime& runtime, const GemmOperands& operands,
                    const std::string& name, const io::RangeWriter* to, const Resume& resume);

}  // namespace shardstream::workloads
