#include "runtime/provenance.hpp"

#include <fmt/format.h>
#include <sys/utsname.h>

#include <algorithm>
#include <array>
#include <fstream>

#include "build_info.hpp"
#include "core/job_environment.hpp"
#include "core/uuid.hpp"
#include "io/hdf5/result_file.hpp"
#include "kernels/gemm/multiply/multiply.hpp"
#include "ranks/gpu_locality.hpp"

extern char** environ;

namespace shardstream::runtime {
std::string operating_system() {
  std::string name = "Linux";
  std::ifstream release("/etc/os-release");
  for (std::string line; std::getline(release, line);) {
    if (!line.starts_with("PRETTY_NAME=")) continue;
    name = line.substr(12);
    std::erase(name, '"');
  }
  utsname kernel{};
  if (uname(&kernel) != 0) return name;
  return fmt::format("{}, {} {} {}", name, kernel.sysname, kernel.release, kernel.machine);
}

std::string job_environment() {
  std::string text;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (describes_job(*entry)) text += fmt::format("{}\n", *entry);
  }
  return text;
}

std::string version() {
  return std::string(build_info::version);
}

std::string version_line() {
  return fmt::format("shardstream {} (commit {}, CUDA {})", build_info::version,
                     build_info::git_commit, build_info::cuda_version);
}

std::vector<std::pair<std::string, std::string>> provenance(
    const device::Device* device, const device::Nvml& nvml,
    const comm::Communicator* communicator) {
  const gemm::HostLibrary openblas = gemm::host_library();
  return {{"version", std::string(build_info::version)},
          {"git_commit", std::string(build_info::git_commit)},
          {"compiler", std::string(build_info::compiler)},
          {"flags", std::string(build_info::flags)},
          {"build_type", std::string(build_info::build_type)},
          {"cuda_toolkit", std::string(build_info::cuda_version)},
          {"device_software", device != nullptr ? device->info().software : ""},
          {"nvidia_driver", nvml.driver_version()},
          {"mpi", ranks::Session::library_version()},
          {"nccl", comm::nccl_version()},
          {"network", communicator != nullptr ? communicator->network() : ""},
          {"openblas", openblas.version},
          {"openblas_core", openblas.core},
          {"openblas_core_chosen_by", openblas.core_chosen_by},
          {"openblas_threads", openblas.threads},
          {"hdf5", io::hdf5_version()},
          {"hwloc", ranks::hwloc_version()},
          {"operating_system", operating_system()},
          {"environment", job_environment()}};
}

std::string make_run_uuid(const ranks::Session& session) {
  return session.broadcast(random_uuid());
}

}  // namespace shardstream::runtime
