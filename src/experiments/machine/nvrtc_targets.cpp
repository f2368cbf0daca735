#include "experiments/bench.hpp"
#include "experiments/machine/nvrtc.hpp"

namespace shardstream::experiments::machine {

Targets targets_for(std::span<const int> known, int capability) {
  constexpr int generation = 10;  // 90 and 91 are of the same
  Targets targets{.ptx = 0, .cubin = {}};
  for (const int each : known) {
    if (each > capability) break;
    targets.ptx = each;
    if (each / generation == capability / generation) targets.cubin = each;
  }
  if (targets.ptx == 0) {
    throw NotAvailable(
        "NVRTC compiles only for GPUs that are newer than this one: build the "
        "program with an older CUDA toolkit");
  }
  return targets;
}

}  // namespace shardstream::experiments::machine
