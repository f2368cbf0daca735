#include "experiments/ladders/ladders.hpp"

#include <array>

#include "kernels/kernel.hpp"

namespace shardstream::experiments::ladders {
namespace {

constexpr std::array reduction_options = {
    OptionRow{"reduction.count", OptionKind::count, "2^24", "2^20..",
              "Floats to add; 4294967296 are 16 GiB."},
};

}  // namespace

std::vector<Experiment> experiments() {
  return {
      {.name = "reduction",
       .group = "ladders",
       .summary =
           "The sum of floats, from a tree in global memory to one pass at the rate of memory.",
       .explanation =
           "Each rung changes one thing: where the tree lives, which threads add, how many "
           "elements "
           "a thread takes, how many loads are in flight, how warps and blocks join their sums. "
           "The "
           "table names the file and line of each kernel (in src/experiments/ladders) and its "
           "factor "
           "over the rung before. The first rungs are bound by barriers and launches, the last "
           "ones "
           "by memory. 2^24 floats are 64 MiB, of which the L2 cache of a recent GPU holds a part, "
           "so that a share above 1 is possible; with reduction.count 2^32 it is not. Last come "
           "this "
           "program's own reduction, which adds in a fixed order, and CUB's. Harris, Optimizing "
           "Parallel Reduction in CUDA; CUDA C++ Programming Guide, section Warp Shuffle "
           "Functions.",
       .reference =
           "Tesla V100, 2^24 floats, ms: global memory 4.609, shared memory 0.624, mask 0.399, "
           "interleaved 0.446, sequential 0.378, grid stride 0.278, four in flight 0.264, groups "
           "0.264, unrolled 0.263, atomics 39, block atomics 0.259.",
       .options = reduction_options,
       .figure =
           {.look = Look::steps, .x = "rung", .y = "time", .log_y = true, .more_is_better = false},
       .needs = {.ceilings = {"device_read"}},
       .run = with_cuda<reduction>(),
       .run_host = reduction_on_host},
  };
}

}  // namespace shardstream::experiments::ladders
