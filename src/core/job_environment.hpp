// The environment variables of a job that matter for its speed.
#pragma once

#include <string_view>

namespace shardstream {

/// Whether the variable (NAME or NAME=value) belongs to a result file: settings of MPI, NCCL, CUDA,
/// HDF5 and networks, loaded modules, and the shape of a Slurm job. Users share result files, so
/// logins, credentials, addresses, folders and names of hosts are left out.
bool describes_job(std::string_view variable);

}  // namespace shardstream
