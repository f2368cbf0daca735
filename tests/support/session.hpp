// The MPI session of an MPI test program; its main holds it.
#pragma once

#include <optional>

#include "launch/session.hpp"

namespace shardstream::test {

const launch::Session& session();

/// Of each program its own: the exit code if it cannot run here, after it has said why; the same on
/// all ranks of a host.
std::optional<int> exit_code_without_hardware();

}  // namespace shardstream::test
