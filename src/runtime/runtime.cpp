#include "runtime/runtime.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "core/error.hpp"
#include "device/cuda/cuda_device.hpp"
#include "device/host/host_device.hpp"
#include "device/host/memory.hpp"
#include "launch/affinity.hpp"

namespace shardstream::runtime {
namespace {

constexpr std::array rows = {
    OptionRow{"device.backend", OptionKind::choice, "auto", "auto|cuda|host",
              "Where kernels run; auto takes the GPUs where there are any, else the CPUs."},
};

/// A GPU's device file that this process may open; a job that was given none may not.
bool gpus_are_granted() {
  for (int gpu = 0; gpu < 64; ++gpu) {
    if (access(fmt::format("/dev/nvidia{}", gpu).c_str(), R_OK | W_OK) == 0) return true;
  }
  return false;
}

/// Why CUDA sees none of the GPUs that are there; empty if they were hidden on purpose.
std::string hidden_gpus() {
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (visible == nullptr) return "CUDA sees none of them";
  const std::string_view text = visible;
  if (text.empty() || text == "-1" || text == "NoDevFiles") return "";
  return fmt::format("CUDA_VISIBLE_DEVICES={} names none of them", text);
}

/// CPUs left idle that readers could use are worth a word: Open MPI binds each of two ranks or
/// fewer to one core.
void warn_of_few_cpus(const launch::Session& session, unsigned threads, Log& log) {
  const long online = sysconf(_SC_NPROCESSORS_ONLN);
  constexpr unsigned enough = 8;
  if (session.rank() != 0 || threads >= enough) return;
  if (online < 2L * threads * session.local_size()) return;
  log.warn(
      fmt::format("each rank may use {} of this host's {} CPUs: mpirun --bind-to none, or "
                  "srun --cpus-per-task, gives it more",
                  threads, online));
}

Sight look(const launch::Session& session) {
  Sight sight;
  sight.built_with_cuda = built_with_cuda;
  sight.local_rank = session.local_rank();
  sight.local_ranks = session.local_size();
  if constexpr (built_with_cuda) {
    const auto seen = device::cuda::inventory();
    sight.gpus = seen.count;
    sight.problem = seen.problem;
  }
  if (sight.gpus == 0 && sight.problem.empty() && gpus_are_granted()) {
    sight.problem = built_with_cuda ? hidden_gpus() : "this program was built without CUDA";
  }
  return sight;
}

/// Nothing on the host backend, without NVML or where nobody wants it.
std::optional<device::NvmlGpu> gpu_to_sample(const Runtime& runtime) {
  if (runtime.resources.device_is_host || !runtime.options.flag("measure.telemetry")) return {};
  auto gpu = runtime.nvml.gpu_at(runtime.device->info().pci);
  if (!gpu && runtime.session.rank() == 0) {
    const std::string& problem = runtime.nvml.problem();
    runtime.log.warn(
        fmt::format("there is no telemetry ({}): install the driver's libnvidia-ml.so.1, or pass "
                    "--measure.telemetry false",
                    problem.empty() ? "NVML does not know the GPU" : problem));
  }
  return gpu;
}

std::unique_ptr<device::Device> open_device(int gpu, unsigned threads) {
  if constexpr (built_with_cuda) {
    if (gpu >= 0) return device::cuda::make_device(gpu, threads);
  }
  expect(gpu < 0, "a GPU is chosen only in a build with CUDA");
  return device::host::make_device(threads);
}

}  // namespace

std::span<const OptionRow> device_options() {
  return rows;
}

int choose_gpu(const std::string& wanted, const Sight& sight) {
  if (!sight.problem.empty()) {
    throw UsageError(fmt::format(
        "there are GPUs, but they cannot be used ({}): mend that, or pass --device.backend host",
        sight.problem));
  }
  if (sight.gpus == 0) {
    if (wanted == "auto") return -1;
    throw UsageError(fmt::format(
        "--device.backend cuda: {}: pass --device.backend host, or start on a machine with GPUs",
        sight.built_with_cuda ? "no GPU is visible (CUDA_VISIBLE_DEVICES may hide them)"
                              : "this program was built without CUDA"));
  }
  if (sight.gpus == 1) return 0;  // the launcher gave each rank its own, or check_bindings() tells
  if (sight.local_rank < sight.gpus) return sight.local_rank;
  throw UsageError(fmt::format(
      "{} ranks on this host see {} GPUs: start one rank a GPU, or pass --device.backend host",
      sight.local_ranks, sight.gpus));
}

void check_bindings(std::span<const Binding> bindings) {
  for (std::size_t b = 0; b < bindings.size(); ++b) {
    if (bindings[b].backend != bindings[0].backend) {
      throw UsageError(fmt::format(
          "rank 0 would use the {} backend and rank {} the {} backend: start all ranks on like "
          "hosts, or pass --device.backend host",
          bindings[0].backend, b, bindings[b].backend));
    }
    for (std::size_t a = 0; a < b && !bindings[b].uuid.empty(); ++a) {
      if (bindings[a].uuid != bindings[b].uuid || bindings[a].host != bindings[b].host) continue;
      throw UsageError(fmt::format(
          "ranks {} and {} on {} would share one GPU ({}): start one rank a GPU, or pass "
          "--device.backend host",
          a, b, bindings[b].host, bindings[b].uuid));
    }
  }
}

Runtime::Runtime(const launch::Session& the_session, const Options& the_options, Log& the_log)
    : session(the_session), options(the_options), log(the_log) {
  const auto span = recorder.phase("device");
  resources.threads = launch::own_cpus(session);
  warn_of_few_cpus(session, resources.threads, log);
  session.collectively([&] {
    const std::string& wanted = options.text("device.backend");
    const int gpu = wanted == "host" ? -1 : choose_gpu(wanted, look(session));
    device = open_device(gpu, resources.threads);
  });
  const auto uuids = session.gather(device->info().uuid);
  const auto backends = session.gather(device->info().backend);
  const auto hosts = session.gather(session.host());
  std::vector<Binding> bindings;
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    bindings.push_back({hosts[rank], backends[rank], uuids[rank]});
  }
  session.collectively([&] { check_bindings(bindings); });
  resources.ranks_on_host = static_cast<unsigned>(session.local_size());
  resources.cache = static_cast<std::uint64_t>(std::max(0L, sysconf(_SC_LEVEL3_CACHE_SIZE)));
  resources.host_memory = device::host::available_memory();
  resources.device_is_host = device->info().backend == "host";
  resources.device_memory = resources.device_is_host
                                ? resources.host_memory / resources.ranks_on_host
                                : device->info().memory_free;
  communicator = comm::make_mpi_communicator(*device, session.size(), most_collective_bytes);
  if (!resources.device_is_host) nvml = device::Nvml(device::Nvml::usual_name);
  telemetry.emplace(gpu_to_sample(*this), options.seconds("measure.telemetry-interval"),
                    measure::most_samples(session.size()));
}

}  // namespace shardstream::runtime
