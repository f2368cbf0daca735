// Whether a test program has the GPUs that it needs.
#pragma once

#include <optional>

namespace shardstream::test {

/// Nothing if `needed` GPUs or more are visible. Else the program's exit code, after it has said
/// why: that of a skipped test, or, with SHARDSTREAM_REQUIRE_GPU=1 in the environment and no GPU at
/// all, a failure.
std::optional<int> exit_code_without_gpus(int needed);

}  // namespace shardstream::test
