// The provenance of a result: this build, its libraries, the system and the job.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "runtime/runtime.hpp"

namespace shardstream::runtime {

/// "shardstream 0.1.0 (commit ..., CUDA 13.0)".
std::string version_line();
/// "0.1.0"
std::string version();

/// The distribution and the kernel of this host.
std::string operating_system();
/// The variables of this process that belong to a result file (core/job_environment.hpp), a line
/// NAME=value for each.
std::string job_environment();

/// Names and values for the group /provenance of a result. They include only those environment
/// variables that belong to launchers, MPI, networks, NCCL, CUDA, HDF5 and modules. Both pointers
/// may be null.
std::vector<std::pair<std::string, std::string>> provenance(const device::Device* device,
                                                            const device::Nvml& nvml,
                                                            const comm::Communicator* communicator);

/// 32 hexadecimal digits in five groups, new for each run, the same on every rank. Collective.
std::string make_run_uuid(const ranks::Session& session);

}  // namespace shardstream::runtime
