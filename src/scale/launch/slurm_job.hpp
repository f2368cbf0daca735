// The state of the Slurm job in which this process runs.
#pragma once

#include <string>

namespace shardstream::scale {

/// The number of the job; empty outside of Slurm.
std::string slurm_job_id();

/// The reason why the job is about to end, such as "the Slurm job 47 is CANCELLED"; empty if it
/// goes on, if there is no job, or if Slurm does not answer within some seconds. A job that was
/// cancelled or has reached its time limit lives for a while, in which new launches would be
/// killed. Throws Error if no process can be started. This process must have a single thread.
std::string end_of_slurm_job(const char* const* environment);

}  // namespace shardstream::scale
