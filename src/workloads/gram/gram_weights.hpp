// The weights of samples or of variables: the options gram.weights and gram.weight-of.
#pragma once

#include <optional>

#include "core/options.hpp"
#include "workloads/product/data/operands.hpp"

namespace shardstream::workloads {

/// The weights that the options name for `operands`, whose matrix is open; nothing if gram.weights
/// is empty. The dimensions of the weights must be those of the samples, or of the variables, or
/// some of them, in their order if they have no names: then all elements with the same indices in
/// these have the same weight. Or one dimension has a weight for each. Throws UsageError if the
/// data set cannot be read, if its dimensions do not fit or fit in several ways, and, with the
/// position, if a weight is negative or not finite, or if all are 0.
std::optional<product::Weights> open_weights(const Options& options,
                                             const product::Operands& operands);

}  // namespace shardstream::workloads
