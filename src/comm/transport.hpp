// The [comm] options, and which transport a run combines over.
#pragma once

#include <span>
#include <string>

#include "core/options.hpp"

namespace shardstream::comm {

/// The rows of [comm]: transport, timeout.
std::span<const OptionRow> comm_options();

enum class Transport { mpi, nccl };

/// What the choice depends on; the same on every rank.
struct Circumstances {
  bool on_gpus = false;      ///< the ranks' devices are GPUs
  bool shared_gpus = false;  ///< two ranks or more have one GPU
  bool has_nccl = false;     ///< this build has NCCL
  int ranks = 1;
};

/// comm.transport = `wanted` (auto|nccl|mpi): auto is NCCL between GPUs, MPI on the host backend
/// and for one rank. Throws UsageError with the remedy where NCCL is asked for and can't be.
Transport choose_transport(const std::string& wanted, const Circumstances& here);

}  // namespace shardstream::comm
