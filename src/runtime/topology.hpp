// Who ran where: the tables of ranks and GPUs as they were observed.
#pragma once

#include "core/table.hpp"
#include "runtime/runtime.hpp"

namespace shardstream::runtime {

/// Tables `ranks` and `gpus` (one row a GPU, none on the host backend), on every rank. Collective.
struct Topology {
  Table ranks, gpus;
};
Topology observe(const Runtime& runtime);

}  // namespace shardstream::runtime
