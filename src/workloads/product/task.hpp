// A matrix product as the program runs it: the Task of every workload that multiplies.
#pragma once

#include <memory>
#include <string_view>

#include "workloads/product/product.hpp"
#include "workloads/workload.hpp"

namespace shardstream::workloads {

/// The task of the workload `name`, which must outlive it, as must `options`. Throws UsageError if
/// an operand's type or the sizes are not for the precision.
std::unique_ptr<Task> open_product(std::string_view name, const Options& options,
                                   GemmOperands operands);

}  // namespace shardstream::workloads
