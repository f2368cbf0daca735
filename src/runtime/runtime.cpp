#include "runtime/runtime.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "core/error.hpp"
#include "device/cuda/cuda_device.hpp"
#include "device/host/host_device.hpp"
#include "device/host/pages.hpp"
#include "launch/affinity.hpp"

namespace shardstream::runtime {
namespace {

constexpr std::array rows = {
    OptionRow{"device.backend", OptionKind::choice, "auto", "auto|cuda|host",
              "Where kernels run; auto takes the GPUs where there are any, else the CPUs."},
};

Sight look(const launch::Session& session) {
  Sight sight;
  sight.built_with_cuda = built_with_cuda;
  sight.local_rank = session.local_rank();
  sight.local_ranks = session.local_size();
  if constexpr (built_with_cuda) {
    const auto seen = device::cuda::inventory();
    sight.gpus = seen.count;
    sight.problem = seen.problem;
  } else if (std::filesystem::exists("/dev/nvidiactl")) {
    sight.problem = "this program was built without CUDA";
  }
  return sight;
}

std::unique_ptr<device::Device> open_device(int gpu, unsigned threads) {
  if constexpr (built_with_cuda) {
    if (gpu >= 0) return device::cuda::make_device(gpu, threads);
  }
  expect(gpu < 0, "a GPU is chosen only in a build with CUDA");
  return device::host::make_device(threads);
}

/// CPUs of this rank: its mask, shared out where other ranks of the host have the same one.
unsigned threads_for(const launch::Session& session) {
  const std::string mine = session.host() + " " + launch::granted_cpu_list();
  const auto masks = session.gather(mine);
  const auto sharers = static_cast<unsigned>(std::ranges::count(masks, mine));
  return std::max(1U, launch::granted_cpus() / sharers);
}

}  // namespace

std::span<const OptionRow> device_options() {
  return rows;
}

int choose_gpu(const std::string& wanted, const Sight& sight) {
  if (wanted == "host") return -1;
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
  resources.threads = threads_for(session);
  session.collectively([&] {
    const int gpu = choose_gpu(options.text("device.backend"), look(session));
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
  resources.device_memory = device->info().memory_free;
  communicator = comm::make_mpi_communicator(*device, session.size(), most_collective_bytes);
}

}  // namespace shardstream::runtime
