// The state of the Slurm job in which this process runs.
#pragma once

#include <filesystem>
#include <string>

namespace shardstream::scale {

/// The number of the job; empty outside of Slurm.
std::string slurm_job_id();

/// The reason why the job is about to end, such as "the Slurm job 47 is CANCELLED", according to
/// `log`, the log of a failed launch, or to scontrol. Empty if the job goes on, if there is none,
/// or if Slurm does not answer within some seconds. A job that was cancelled or has reached its
/// time limit lives for a while, in which new launches would be killed or rejected. Throws Error if
/// no process can be started. This process must have a single thread.
std::string end_of_slurm_job(const std::filesystem::path& log, const char* const* environment);

}  // namespace shardstream::scale
