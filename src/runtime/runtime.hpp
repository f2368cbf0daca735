// Creates the device, the communicator and the recorder of a run.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "comm/communicator.hpp"
#include "core/log.hpp"
#include "core/options.hpp"
#include "device/device.hpp"
#include "device/nvml.hpp"
#include "kernels/backend.hpp"
#include "measure/clock.hpp"
#include "measure/telemetry.hpp"
#include "measure/track.hpp"
#include "ranks/session.hpp"
#include "runtime/topology.hpp"

namespace shardstream::runtime {

/// The rows of [device].
std::span<const OptionRow> device_options();

/// The resources of one rank.
struct Resources {
  unsigned threads = 1;  ///< number of CPUs that only this rank uses
  unsigned ranks_on_host = 1;
  std::uint64_t cache = 0;          ///< bytes of the last-level cache, 0 if unknown
  std::uint64_t host_memory = 0;    ///< bytes that all ranks of this host can use together
  std::uint64_t device_memory = 0;  ///< bytes of device memory that this rank can use
  /// Bytes of host memory that each rank needs in addition to its buffers; 0 with CUDA.
  std::uint64_t process_memory = 0;
  Backend backend = Backend::cuda;  ///< host: device memory is a part of the host's memory
  bool oversubscribed = false;      ///< two ranks of the run share a GPU; the same on all ranks
};

/// An upper estimate of Resources::process_memory for a rank with `threads` CPUs on the host
/// backend, after its start: messages between ranks, caches of HDF5, rounding of buffers to huge
/// pages, and for each thread its stack and the packing buffers of the BLAS.
std::uint64_t process_memory(unsigned threads);

/// The device, the communicator and the recorder of one rank. The session, the log and the options
/// must outlive it.
struct Runtime {
  const ranks::Session& session;
  const Options& options;
  Log& log;
  Resources resources;
  /// The time at which this object was created; inputs and outputs were open by then.
  std::chrono::steady_clock::time_point begun = std::chrono::steady_clock::now();
  std::unique_ptr<device::Device> device;
  std::unique_ptr<comm::Communicator> communicator;
  measure::Recorder recorder;
  measure::ClockOffset clock_at_start;  ///< compared if the recorder keeps spans
  device::Nvml nvml;                    ///< not loaded on the host backend
  // Both always have a value. The code that times the work starts the telemetry.
  std::optional<measure::Telemetry> telemetry;
  std::optional<Topology> topology;

  /// Takes the place that ranks::place() assigns to this rank: binds the calling thread to its
  /// CPUs, so no other thread may run yet, and opens its GPU or the host backend. Then connects the
  /// ranks as comm.transport requests. Observes the topology while NCCL starts, and warns of other
  /// work on the machine. Throws AgreedError. Collective.
  Runtime(const ranks::Session& session, const Options& options, Log& log);
  ~Runtime();

 private:
  void open();
  void observe();
};

}  // namespace shardstream::runtime
