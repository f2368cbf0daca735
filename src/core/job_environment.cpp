#include "core/job_environment.hpp"

#include <algorithm>
#include <array>
#include <string>

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
  // mpirun tells its ranks about itself in settings of orte, ess and others.
  constexpr std::array<std::string_view, 16> others = {
      "jwt",  "token", "secret", "key",  "uri",   "auth", "user",      "addr",
      "host", "path",  "file",   "hint", "orte_", "ess_", "num_procs", "precondition"};
  const std::string_view name = variable.substr(0, variable.find('='));
  std::string lower(name);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  const auto begins = [](std::string_view text, const auto& prefixes) {
    return std::ranges::any_of(prefixes, [&](auto prefix) { return text.starts_with(prefix); });
  };
  if (std::ranges::any_of(others, [&](auto word) { return lower.find(word) != lower.npos; })) {
    return false;
  }
  constexpr std::string_view slurm = "SLURM_";
  return name.starts_with(slurm) ? begins(name.substr(slurm.size()), of_slurm)
                                 : begins(name, settings);
}

}  // namespace shardstream
