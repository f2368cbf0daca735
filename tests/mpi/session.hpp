// The MPI session of an MPI test program; its main holds it.
#pragma once

#include "launch/session.hpp"

namespace shardstream::test {

const launch::Session& session();

}  // namespace shardstream::test
