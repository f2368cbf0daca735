// The [comm] options and the choice of the transport.
#pragma once

#include <span>
#include <string>

#include "core/options.hpp"

namespace shardstream::comm {

/// The options comm.transport and comm.timeout.
std::span<const OptionRow> comm_options();

enum class Transport { mpi, nccl };

/// The facts that the choice depends on; the same on every rank.
struct Circumstances {
  bool on_gpus = false;      ///< the ranks' devices are GPUs
  bool shared_gpus = false;  ///< two or more ranks share a GPU
  bool has_nccl = false;     ///< this program was built with NCCL
  int ranks = 1;
};

/// The transport for comm.transport = `wanted` (auto|nccl|mpi). `auto` is NCCL between GPUs, and
/// MPI on the host backend and for one rank. Throws UsageError with the remedy if NCCL is requested
/// but cannot be used.
Transport choose_transport(const std::string& wanted, const Circumstances& here);

}  // namespace shardstream::comm
