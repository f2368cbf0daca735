// Files of `bench` as the cases of a comparison.
#pragma once

#include <string>

#include "report/comparison/cases.hpp"

namespace shardstream::report {

/// Whether the first result in the path is a file of `bench`.
bool holds_benches(const std::string& path);

/// The rows of the experiments in the path, a file of `bench` or a folder of them, which count as
/// launches. A case has the same rank and the same values of the varied quantities. Throws
/// UsageError if the path has other results too.
CaseSide read_benches(const std::string& path);

}  // namespace shardstream::report
