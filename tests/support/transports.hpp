// The transports of tests of collectives. Each test program links one definition: the host's
// (tests/mpi/host_transports.cpp) or CUDA's (tests/gpu/cuda_transports.cpp). The tests are the
// same.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.hpp"
#include "device/device.hpp"

namespace shardstream::test {

/// The names of the transports between devices of this backend.
std::vector<std::string> transports();

/// This rank's device.
std::unique_ptr<device::Device> make_own_device();

/// A communicator over the named transport; MPI uses pieces of `piece` bytes. Collective.
std::unique_ptr<comm::Communicator> connect(const std::string& transport, device::Device& device,
                                            std::size_t piece);

}  // namespace shardstream::test
