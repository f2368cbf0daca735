#include "runtime/runtime.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <functional>
#include <future>

#include "comm/nccl_messages.hpp"
#include "comm/transport.hpp"
#include "core/error.hpp"
#include "device/cuda/cuda_device.hpp"
#include "device/host/host_device.hpp"
#include "device/host/process_memory.hpp"
#include "ranks/gpu_locality.hpp"
#include "ranks/session.hpp"
#include "ranks/situation.hpp"
#include "result/tables.hpp"
#include "runtime/machine_state.hpp"

namespace shardstream::runtime {
namespace {

constexpr std::array rows = {
    OptionRow{"device.backend", OptionKind::choice, "auto", "auto|cuda|host",
              "Where kernels run; auto takes the GPUs where there are any, else the CPUs.",
              "gpu=cuda cpu=host"},
    OptionRow{"device.oversubscribe", OptionKind::flag, "false", "",
              "Whether ranks may share a GPU where there are more ranks than GPUs."},
    OptionRow{"device.first", OptionKind::count, "0", "0..1023",
              "The number of the GPU that the first rank of each host takes. The other ranks take "
              "the next ones; GPU 0 follows the last one. Ignored on the host backend. A scaling "
              "study sets it, so that its launches use different GPUs."},
};

/// Whether this process may open the device file of a GPU. A job without GPUs may not.
bool gpus_are_granted() {
  for (int gpu = 0; gpu < 64; ++gpu) {
    if (access(fmt::format("/dev/nvidia{}", gpu).c_str(), R_OK | W_OK) == 0) return true;
  }
  return false;
}

/// The reason why CUDA sees none of the existing GPUs; empty if they are hidden on purpose.
std::string hidden_gpus() {
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (visible == nullptr) return "CUDA sees none of them";
  const std::string_view text = visible;
  if (text.empty() || text == "-1" || text == "NoDevFiles") return "";
  return fmt::format("CUDA_VISIBLE_DEVICES={} names none of them", text);
}

/// The hardware that this rank sees; `wanted` is device.backend. CUDA starts while hwloc reads the
/// topology.
ranks::Situation observe_hardware(const ranks::Session& session, const std::string& wanted) {
  std::future<device::cuda::Inventory> inventory;
  if constexpr (built_with_cuda) {
    if (wanted != "host") inventory = std::async(std::launch::async, device::cuda::inventory);
  }
  ranks::Situation seen = ranks::observe(session);
  seen.built_with_cuda = built_with_cuda;
  if (wanted == "host") return seen;
  if (inventory.valid()) {
    ranks::load_topology();
    auto [gpus, problem] = inventory.get();
    seen.problem = problem;
    for (const auto& gpu : gpus) {
      const auto [node, cpus] = ranks::locality_of(gpu.pci);
      seen.gpus.push_back({gpu.uuid, gpu.pci, gpu.name, node, cpus});
    }
  }
  if (seen.gpus.empty() && seen.problem.empty() && gpus_are_granted()) {
    seen.problem = built_with_cuda ? hidden_gpus() : "this program was built without CUDA";
  }
  return seen;
}

/// This rank's equal part of its GPU's free memory in bytes. The free memory is the minimum that
/// any rank on this GPU has found, since each rank that opens the GPU uses some. Collective.
std::uint64_t part_of_free_memory(const ranks::Session& session, const ranks::RankPlacement& place,
                                  std::uint64_t free) {
  const auto found = session.gather(std::vector{free});
  for (const int rank : place.sharers) {
    free = std::min(free, found[static_cast<std::size_t>(rank)]);
  }
  return free / std::max<std::size_t>(1, place.sharers.size());
}

/// Nothing on the host backend, without NVML, or if measure.telemetry is false.
std::optional<device::NvmlGpu> gpu_to_sample(const Runtime& runtime) {
  if (runtime.resources.backend == Backend::host || !runtime.options.flag("measure.telemetry"))
    return {};
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

/// The communicator that comm.transport requests. Calls `meanwhile`, while NCCL starts. Collective.
std::unique_ptr<comm::Communicator> connect(Runtime& runtime,
                                            const std::function<void()>& meanwhile) {
  const auto span = runtime.recorder.phase("communicator", measure::PhaseKind::communication);
  const ranks::Session& session = runtime.session;
  const bool has_nccl = !comm::nccl_version().empty();
  auto transport = comm::Transport::mpi;
  session.collectively([&] {
    transport = comm::choose_transport(runtime.options.text("comm.transport"),
                                       {.on_gpus = runtime.resources.backend == Backend::cuda,
                                        .shared_gpus = runtime.resources.oversubscribed,
                                        .has_nccl = has_nccl,
                                        .ranks = session.size()});
  });
  if (transport == comm::Transport::nccl) {
    auto over_nccl = comm::make_nccl_communicator(*runtime.device, session, meanwhile);
    const std::string warning = comm::network_warning(over_nccl->network());
    if (!warning.empty() && session.rank() == 0) runtime.log.warn(warning);
    return over_nccl;
  }
  if (runtime.resources.backend == Backend::cuda && !has_nccl && session.size() > 1 &&
      session.rank() == 0) {
    runtime.log.warn(
        "built without NCCL: the GPUs' results are combined over MPI, through host memory");
  }
  meanwhile();
  std::unique_ptr<comm::Communicator> over_mpi;
  session.collectively([&] {
    over_mpi =
        comm::make_mpi_communicator(*runtime.device, session, comm::mpi_piece(session.size()));
  });
  return over_mpi;
}

}  // namespace

std::span<const OptionRow> device_options() {
  return rows;
}

std::uint64_t process_memory(unsigned threads) {
  // Measured with two threads: 30 to 60 MiB besides the buffers, of which 4 to 5 MiB per thread.
  constexpr std::uint64_t MiB = std::uint64_t{1} << 20, base = 64 * MiB, per_thread = 8 * MiB;
  return base + threads * per_thread;
}

Runtime::Runtime(const ranks::Session& the_session, const Options& the_options, Log& the_log)
    : session(the_session),
      options(the_options),
      log(the_log),
      recorder(options.flag("measure.timeline"), &session.heartbeat()) {
  if (recorder.keeps_spans()) clock_at_start = measure::compare_clocks(session);
  open();
  communicator = connect(*this, [this] { observe(); });
}

void Runtime::open() {
  const auto span = recorder.phase("device", measure::PhaseKind::useful);
  const std::string& wanted = options.text("device.backend");
  const ranks::PlacementRequest request{.backend = wanted,
                                        .oversubscribe = options.flag("device.oversubscribe"),
                                        .bind = ranks::may_bind(options),
                                        .max_cpus = options.is_auto("launch.cpus-per-rank")
                                                        ? 0
                                                        : options.count("launch.cpus-per-rank"),
                                        .first_gpu = options.count("device.first")};
  const ranks::Placement plan =
      ranks::take_places(session, observe_hardware(session, wanted), request, log);
  const ranks::RankPlacement& place = plan.places[static_cast<std::size_t>(session.rank())];
  std::future<device::Nvml> starting;  // starts while CUDA creates its context
  session.collectively([&] {
    if (place.gpu >= 0) {
      starting =
          std::async(std::launch::async, [] { return device::Nvml(device::Nvml::usual_name); });
    }
    device = open_device(place.gpu, place.threads);
  });
  resources.threads = place.threads;
  resources.oversubscribed = plan.shares_gpu();
  resources.ranks_on_host = static_cast<unsigned>(session.local_size());
  resources.cache = static_cast<std::uint64_t>(std::max(0L, sysconf(_SC_LEVEL3_CACHE_SIZE)));
  resources.host_memory = device::host::available_memory();
  resources.backend = backend_named(device->info().backend);
  resources.device_memory = resources.backend == Backend::host
                                ? resources.host_memory / resources.ranks_on_host
                                : part_of_free_memory(session, place, device->info().memory_free);
  if (resources.backend == Backend::host) resources.process_memory = process_memory(place.threads);
  if (starting.valid()) nvml = starting.get();
}

void Runtime::observe() {
  telemetry.emplace(gpu_to_sample(*this), options.seconds("measure.telemetry-interval"),
                    measure::max_samples(session.size()));
  topology = runtime::observe({.session = session,
                               .threads = resources.threads,
                               .device = device.get(),
                               .nvml = nvml,
                               .ask_cuda = resources.backend == Backend::cuda});
  if (session.rank() != 0) return;
  for (const std::string& warning : warnings_on_state(*topology)) log.warn(warning);
}

Runtime::~Runtime() = default;

}  // namespace shardstream::runtime
