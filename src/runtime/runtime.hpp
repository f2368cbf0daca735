// Puts together what a workload works with: the device, the communicator, the recorder.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "comm/communicator.hpp"
#include "core/log.hpp"
#include "core/options.hpp"
#include "device/device.hpp"
#include "device/nvml.hpp"
#include "launch/session.hpp"
#include "measure/recorder.hpp"
#include "measure/telemetry.hpp"

namespace shardstream::runtime {

/// The rows of [device]: backend.
std::span<const OptionRow> device_options();

/// What one rank has to work with.
struct Resources {
  unsigned threads = 1;  ///< CPUs for this rank alone
  unsigned ranks_on_host = 1;
  std::uint64_t cache = 0;          ///< bytes of the last-level cache, 0 if unknown
  std::uint64_t host_memory = 0;    ///< bytes that the host would give to all of its ranks
  std::uint64_t device_memory = 0;  ///< bytes that the device would give to this rank
  bool device_is_host = false;      ///< then both come out of the host's memory
};

/// What the ranks of one host can see of its GPUs.
struct Sight {
  bool built_with_cuda = false;
  int gpus = 0;         ///< visible to this process
  std::string problem;  ///< why GPUs that are there cannot be used; empty if there is none
  int local_rank = 0, local_ranks = 1;
};

/// The GPU that this rank binds, or -1 for the host backend, under device.backend = `wanted`
/// (auto|cuda; `host` needs no look). Throws UsageError with the remedy when that cannot be: GPUs
/// that are there are never passed over silently.
int choose_gpu(const std::string& wanted, const Sight& sight);

/// What one rank has bound; `uuid` is empty on the host backend.
struct Binding {
  std::string host, backend, uuid;
};

/// Throws UsageError if the ranks differ in backend, or if two of them have bound one GPU.
void check_bindings(std::span<const Binding> bindings);

/// One rank's equipment. The session, the log and the options must outlive it.
struct Runtime {
  const launch::Session& session;
  const Options& options;
  Log& log;
  Resources resources;
  std::unique_ptr<device::Device> device;
  std::unique_ptr<comm::Communicator> communicator;
  measure::Recorder recorder;
  device::Nvml nvml;                            ///< not loaded on the host backend
  std::optional<measure::Telemetry> telemetry;  ///< has a value; started by whoever times

  /// Opens the device that device.backend asks for; all ranks agree on the backend. Collective.
  Runtime(const launch::Session& session, const Options& options, Log& log);
};

/// Bytes that one rank contributes to a collective at the most.
inline constexpr std::size_t most_collective_bytes = std::size_t{64} << 10;

}  // namespace shardstream::runtime
