#include "experiments/ladders/ladders.hpp"

#include <array>

#include "kernels/kernel.hpp"

namespace shardstream::experiments::ladders {
namespace {

constexpr std::array reduction_options = {
    OptionRow{"reduction.count", OptionKind::count, "2^24", "2^20..",
              "Number of floats to add; 2^32 are 16 GiB."},
};

constexpr std::array reduction_order_options = {
    OptionRow{"reduction-order.count", OptionKind::count, "2^32", "2^20..",
              "Number of floats to add. The default with --quick is 2^28; on CPUs it is 2^28, "
              "with --quick 2^24. A default is halved until it fits in memory."},
};

}  // namespace

std::vector<Experiment> experiments() {
  return {
      {.name = "reduction",
       .group = "ladders",
       .summary = "The sum of floats, from a tree in global memory to one pass at the rate of "
                  "memory.",
       .explanation =
           "Each rung of the ladder changes one thing: the memory that holds the tree, the "
           "threads that add, the number of elements per thread, the number of loads in "
           "flight, or the way in which warps and blocks combine their sums. The table names "
           "the file and line of each kernel (in src/experiments/ladders) and its factor over "
           "the previous rung. Expect barriers and launches to limit the first rungs, and "
           "memory to limit the last ones. 2^24 floats are 64 MiB. The L2 cache of a recent "
           "GPU holds a part of them, so the share may exceed 1; with reduction.count 2^32 it "
           "does not. The last two rows are this program's own reduction, which adds in a "
           "fixed order, and CUB's. Without a GPU, only the host reference is timed. Harris, "
           "Optimizing Parallel Reduction in CUDA; CUDA C++ Programming Guide, section Warp "
           "Shuffle Functions.",
       .reference = "Tesla V100, 2^24 floats, ms: global memory 4.609, shared memory 0.624, mask "
                    "0.399, interleaved 0.446, sequential 0.378, grid stride 0.278, four in flight "
                    "0.264, groups 0.264, unrolled 0.263, atomics 39, block atomics 0.259.",
       .share = "of the rate of reading device memory",
       .options = reduction_options,
       .figure =
           {.look = Look::steps, .x = "rung", .y = "time", .log_y = true, .more_is_better = false},
       .needs = {.ceilings = {"device_read"}},
       .run = with_cuda<reduction>(),
       .run_host = reduction_on_host},
      {.name = "reduction-order",
       .group = "ladders",
       .summary = "A fixed order of additions, the same on any number of GPUs, costs little time.",
       .explanation =
           "A run adds leaves of 2^16 elements, each of them in 512 lanes, and then adds the "
           "leaves in a fixed tree. The order `program` is the kernel of a run: for the sum, "
           "for extremes, and for the variance, which reads each leaf twice. The order "
           "`leaves` is a kernel for leaves without the tree, with other numbers of lanes, "
           "leaf sizes, rows in flight and types. Both are compared with "
           "cub::DeviceReduce::Sum, which adds floats in no fixed order. For the sum, expect "
           "a share of 1 for 2^32 floats and nearly 1 for 2^24; extremes cost more for 2^24 "
           "floats. The second pass of the variance finds leaves in the L2 cache if that "
           "holds one leaf for each multiprocessor; otherwise it takes twice as long. On "
           "CPUs, leaves are compared with a plain read of the same memory. kernels/README.md "
           "states the choices that follow from these measurements.",
       .reference = "",
       .share = "of the rate of CUB for as many floats; on CPUs, of the rate of a plain read by "
                "all cores",
       .options = reduction_order_options,
       .figure =
           {.look = Look::bars, .x = "case", .y = "time", .log_y = true, .more_is_better = false},
       .run = with_cuda<reduction_order>(),
       .run_host = reduction_order_on_host},
  };
}

}  // namespace shardstream::experiments::ladders
