// The MPI session of an MPI test program, which its main() owns.
#pragma once

#include <optional>

#include "ranks/session.hpp"

namespace shardstream::test {

const ranks::Session& session();

/// Each program defines this: it prints why the program cannot run here and returns the exit code,
/// the same on all ranks of a host.
std::optional<int> exit_code_without_hardware();

}  // namespace shardstream::test
