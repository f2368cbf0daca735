#include "experiments/link/link.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>

#include "device/nvml.hpp"
#include "experiments/bench.hpp"
#include "kernels/kernel.hpp"

namespace shardstream::experiments::link {
namespace {

constexpr std::array transfer_options = {
    OptionRow{"transfer.most", OptionKind::size, "1GiB", "4KiB..",
              "The largest copy; with --quick 64 MiB unless it is given."},
};

constexpr std::array batching_options = {
    OptionRow{"batching.item", OptionKind::size, "1KiB", "4..64KiB", "Memory of an item."},
};

constexpr std::array zero_copy_options = {
    OptionRow{"zero-copy.size", OptionKind::size, "256MiB", "1MiB..", "Memory that is read."},
};

constexpr std::array overlap_options = {
    OptionRow{"overlap.size", OptionKind::size, "256MiB", "1MiB..", "Memory that is copied."},
};

constexpr std::array peer_options = {
    OptionRow{"peer.size", OptionKind::size, "256MiB", "1MiB..", "Memory that a copy moves."},
};

constexpr std::array allocation_options = {
    OptionRow{"allocation.most", OptionKind::size, "256MiB", "4KiB..",
              "The largest allocation; with --quick 64 MiB unless it is given."},
};

}  // namespace

std::string share_of_link(const Bench& bench, double rate) {
  const device::GpuFacts& facts = bench.facts();
  const double link = device::pcie_rate(facts.pcie_generation_max, facts.pcie_width_max);
  if (std::isnan(link)) return "the link's theoretical rate is unknown: NVML does not tell it";
  return fmt::format("{:.2f} of PCIe {} x{}, {:.1f} GB/s", rate / link, facts.pcie_generation_max,
                     facts.pcie_width_max, link);
}

double nvlink_rate(const Bench& bench) {
  return device::nvlink_rate(bench.device().info().compute_capability, bench.facts().nvlinks);
}

std::string share_of_nvlink(const Bench& bench, double rate) {
  const double link = nvlink_rate(bench);
  if (std::isnan(link)) return "no NVLink is known";
  return fmt::format("{:.2f} of {} NVLinks, {:.0f} GB/s", rate / link, bench.facts().nvlinks, link);
}

std::vector<Experiment> experiments() {
  return {
      {.name = "transfer",
       .group = "link",
       .summary =
           "Copies from pinned memory reach the rate of the link, copies from pageable memory do "
           "not.",
       .explanation =
           "Copies between host and device of pageable, pinned, write-combined and registered "
           "memory, the last one also in huge pages; up, down, and both ways at once; from 4 KiB "
           "to transfer.most. The GPU reads pinned memory by itself. Pageable memory must not "
           "move meanwhile, so one thread of the driver first copies it into a pinned buffer. "
           "Small copies take a few microseconds whatever their size. Expect 0.8 to 0.9 of the "
           "theoretical rate of PCIe for large copies of pinned memory. With several ranks each "
           "one measures alone, and then all of them at once: the difference shows what they "
           "share, a part of the link or the host's memory. CUDA C++ Best Practices Guide, "
           "section Data Transfer Between Host and Device.",
       .reference = "PCIe 3 x16: about 12 of 16 GB/s with pinned memory.",
       .share = "of the rate of the link in the same direction",
       .options = transfer_options,
       .figure = {.look = Look::lines,
                  .x = "bytes",
                  .y = "rate",
                  .series = "memory",
                  .panel = "way",
                  .log_x = true,
                  .log_y = true},
       .needs = {.ceilings = {"link_up", "link_down", "link_both"}},
       .turns = Turns::both,
       .run = with_cuda<transfer>()},
      {.name = "batching",
       .group = "link",
       .summary = "One packed copy is faster than many small copies.",
       .explanation =
           "Items of batching.item bytes lie in pinned memory with gaps between them, and are to "
           "lie side by side on the device. They are copied one by one; by one copy of rows with "
           "a pitch; and by one copy after the processor has packed them, with the packing in the "
           "time. Each copy takes some microseconds whatever its size. Expect packing to win from "
           "a few items on. CUDA C++ Best Practices Guide, section Data Transfer Between Host and "
           "Device.",
       .reference = "",
       .share = "of the rate of large uploads",
       .options = batching_options,
       .figure = {.look = Look::lines,
                  .x = "items",
                  .y = "time",
                  .series = "method",
                  .log_x = true,
                  .log_y = true,
                  .more_is_better = false},
       .needs = {.ceilings = {"link_up"}},
       .run = with_cuda<batching>()},
      {.name = "zero-copy",
       .group = "link",
       .summary = "A kernel can read pinned host memory over the link, at best as fast as a copy.",
       .explanation =
           "A kernel reads pinned memory that is mapped for the device, or a copy of it in device "
           "memory: once, twice, and by columns of a matrix, so that the lanes of a warp read "
           "words that are far apart. Without a copy the data does not pass through device "
           "memory, but every read goes over the link. Expect about the same time as a copy and a "
           "kernel for a single pass, twice that time for two, and far more by columns, since "
           "each word takes a request of its own. CUDA C++ Best Practices Guide, section Zero "
           "Copy.",
       .reference = "",
       .share = "of the rate of uploads",
       .options = zero_copy_options,
       .figure =
           {.look = Look::bars, .x = "case", .y = "time", .log_y = true, .more_is_better = false},
       .needs = {.ceilings = {"link_up"}},
       .run = with_cuda<zero_copy>()},
      {.name = "overlap",
       .group = "link",
       .summary = "Split into parts on several streams, copies run while kernels do.",
       .explanation =
           "An upload and a kernel (one way), or an upload, a kernel and a download (two ways), "
           "run in 1 to 16 parts, each on a stream of its own. The kernel takes 0.25 to 4 times "
           "as long as the upload. Depth first enqueues all work of a stream before that of the "
           "next one; breadth first enqueues all uploads, then all kernels, then all downloads. "
           "`no_overlap` is the sum of all stages, `bound` the longest stage, and `predicted` a "
           "model: one of n parts passes through all stages alone, and the other n - 1 take the "
           "time of the longest stage. With one way, the copy time t_T and the kernel time t_E, "
           "this is t_E + t_T/n if the kernel takes longer, else t_T + t_E/n. With two ways, "
           "uploads and downloads share the link. Expect times within 5 % of the model, and no "
           "difference between the orders: only early GPUs had a single queue for all streams. "
           "CUDA C++ Best Practices Guide, section Asynchronous and Overlapping Transfers with "
           "Computation.",
       .reference = "",
       .share = "the predicted time over the measured one",
       .options = overlap_options,
       .figure = {.look = Look::lines,
                  .x = "streams",
                  .y = "time",
                  .series = "kernel",
                  .panel = "case",
                  .beside = {"predicted", "bound"},
                  .log_x = true,
                  .more_is_better = false},
       .run = with_cuda<overlap>()},
      {.name = "peer",
       .group = "link",
       .summary = "GPUs with peer access copy to each other without the host.",
       .explanation =
           "Each rank copies between its own GPU and every other one that it sees, while the "
           "other ranks wait. The copies are made without peer access, with it, with it by a call "
           "that finds the GPUs by the addresses (unified addressing), and by a kernel that "
           "writes or reads the other GPU's memory. Without access the driver moves the bytes "
           "through the host. `small` is the time of a copy of 16 bytes. Expect 0.8 of the "
           "theoretical rate of the NVLinks, or of PCIe, with access, and a fraction of that "
           "without. Two GPUs that are connected without a switch have only some of a GPU's "
           "NVLinks between them. CUDA C++ Programming Guide, section Peer-to-Peer Memory Access.",
       .reference = "",
       .share = "of the theoretical rate of all NVLinks of the GPU",
       .options = peer_options,
       .figure =
           {.look = Look::matrix, .x = "to", .y = "rate", .series = "from", .panel = "method"},
       .needs = {.gpus = 2},
       .turns = Turns::one_by_one,
       .run = with_cuda<peer>()},
      {.name = "allocation",
       .group = "link",
       .summary = "Allocating from a pool takes less than a microsecond, from the driver far more.",
       .explanation =
           "The time to allocate and to free memory. On the device: by cudaMalloc and cudaFree, "
           "from a stream-ordered pool that keeps what is freed, and as a piece of one block. On "
           "the host: by cudaHostAlloc, and by registering pages of 4 KiB or 2 MiB. `rate` says "
           "how fast memory was pinned; it is empty if nothing was pinned. Expect a microsecond "
           "or less from a pool, and 10 us to milliseconds from the driver, which maps memory in "
           "each call. Two exceptions are fast: the driver cuts small blocks from a larger one "
           "while that has room, and it keeps some pinned memory. Pinning takes time for each "
           "page; expect huge pages to be faster. CUDA C++ Best Practices Guide, sections Pinned "
           "Memory and Allocation; Programming Guide, chapter Stream Ordered Memory Allocator.",
       .reference = "",
       .options = allocation_options,
       .figure = {.look = Look::lines,
                  .x = "bytes",
                  .y = "time",
                  .series = "method",
                  .log_x = true,
                  .log_y = true,
                  .more_is_better = false},
       .run = with_cuda<allocation>()},
      {.name = "timers",
       .group = "link",
       .summary = "The host's clock measures only the launch if it does not wait for the kernel.",
       .explanation =
           "Kernels that run for 2 us to 2 ms by the GPU's own timer are timed in three ways: by "
           "the host's clock without a wait, by the host's clock with a wait for the end of the "
           "kernel, and by events. Expect the time of a launch, a few microseconds, for every "
           "kernel if there is no wait. With a wait expect some microseconds too much, for the "
           "launch and the wait; by events a few, for the start and the end of the kernel on the "
           "GPU. Both are far off for the shortest kernel. CUDA C++ Best Practices Guide, section "
           "Timing.",
       .reference = "Events have a resolution of about 0.5 us.",
       .share = "the reported time over the length that the kernel was told to have",
       .options = {},
       .figure = {.look = Look::lines,
                  .x = "kernel",
                  .y = "reported",
                  .series = "timer",
                  .log_x = true,
                  .log_y = true,
                  .more_is_better = false},
       .run = with_cuda<timers>()},
  };
}

}  // namespace shardstream::experiments::link
