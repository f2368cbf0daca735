#include "core/job_environment.hpp"

#include <algorithm>
#include <array>

namespace shardstream {

bool describes_job(std::string_view variable) {
  constexpr std::array<std::string_view, 11> settings = {
      "OMPI_MCA_", "MPICH_", "PALS_", "UCX_",          "FI_", "NCCL_",
      "CUDA_",     "HDF5_",  "PSM2_", "LOADEDMODULES", "OMP_"};
  constexpr std::array<std::string_view, 17> of_slurm = {
      "CLUSTER_NAME",   "CPUS_ON_NODE",    "CPUS_PER_TASK", "CPU_BIND",      "DISTRIBUTION",
      "GPUS",           "JOB_ID",          "JOB_NUM_NODES", "JOB_PARTITION", "MEM_PER_",
      "MPI_TYPE",       "NNODES",          "NPROCS",        "NTASKS",        "RESTART_COUNT",
      "TASKS_PER_NODE", "THREADS_PER_CORE"};
  constexpr std::array<std::string_view, 12> secrets = {"JWT",  "TOKEN", "SECRET", "KEY",
                                                        "URI",  "AUTH",  "USER",   "ADDR",
                                                        "HOST", "PATH",  "FILE",   "precondition"};
  const std::string_view name = variable.substr(0, variable.find('='));
  const auto begins = [](std::string_view text, const auto& prefixes) {
    return std::ranges::any_of(prefixes, [&](auto prefix) { return text.starts_with(prefix); });
  };
  if (std::ranges::any_of(secrets, [&](auto word) { return name.find(word) != name.npos; })) {
    return false;
  }
  constexpr std::string_view slurm = "SLURM_";
  return name.starts_with(slurm) ? begins(name.substr(slurm.size()), of_slurm)
                                 : begins(name, settings);
}

}  // namespace shardstream
