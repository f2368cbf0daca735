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
              "The largest copy. With --quick the default is 64 MiB."},
};

Experiment about_transfer() {
  return {
      .name = "transfer",
      .group = "link",
      .summary =
          "Copies of pinned memory reach the rate of the link; copies of pageable memory do not.",
      .explanation =
          "Copies between host and device are measured for five kinds of host memory: "
          "pageable, pinned, write-combined, registered, and registered in huge pages. They "
          "go up, down and both ways at once, with 4 KiB to transfer.most bytes. The GPU "
          "reads pinned memory directly. Pageable memory may be moved by the system during a "
          "copy, so one thread of the driver first copies it into a pinned buffer. Small "
          "copies take a few microseconds whatever their size. Expect 0.8 to 0.9 of the "
          "theoretical rate of PCIe for large copies of pinned memory. With several ranks, "
          "each rank measures alone, and then all measure at once: the difference shows what "
          "they share, such as a part of the link or the memory of the host. CUDA C++ Best "
          "Practices Guide, section Data Transfer Between Host and Device.",
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
      .run = with_cuda<transfer>()};
}

constexpr std::array batching_options = {
    OptionRow{"batching.item", OptionKind::size, "1KiB", "4..64KiB", "Size of an item."},
};

Experiment about_batching() {
  return {.name = "batching",
          .group = "link",
          .summary = "One packed copy is faster than many small copies.",
          .explanation =
              "Items of batching.item bytes lie in pinned memory with gaps between them, and are "
              "copied to the device without gaps. Three methods are compared: one copy per item; "
              "one 2-D copy, in which the items are rows with a pitch; and one copy after the "
              "processor has packed the items, with the packing in the time. Each copy takes "
              "some microseconds whatever its size. Expect packing to win with more than a few "
              "items. CUDA C++ Best Practices Guide, section Data Transfer Between Host and "
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
          .run = with_cuda<batching>()};
}

constexpr std::array zero_copy_options = {
    OptionRow{"zero-copy.size", OptionKind::size, "256MiB", "1MiB..", "Data that is read."},
};

Experiment about_zero_copy() {
  return {
      .name = "zero-copy",
      .group = "link",
      .summary = "A kernel can read pinned host memory over the link, at best as fast as a copy.",
      .explanation =
          "A kernel reads mapped pinned memory over the link, or a copy of the same data in "
          "device memory. It reads the data once, twice, or by the columns of a matrix, so "
          "that the lanes of a warp read words that are far apart. Mapped data does not pass "
          "through device memory, but every read goes over the link. Compared with a copy "
          "followed by the kernel, expect about the same time for one pass, twice the time "
          "for two passes, and far more by columns, because each word needs its own request. "
          "CUDA C++ Best Practices Guide, section Zero Copy.",
      .reference = "",
      .share = "of the rate of uploads",
      .options = zero_copy_options,
      .figure =
          {.look = Look::bars, .x = "case", .y = "time", .log_y = true, .more_is_better = false},
      .needs = {.ceilings = {"link_up"}},
      .run = with_cuda<zero_copy>()};
}

constexpr std::array overlap_options = {
    OptionRow{"overlap.size", OptionKind::size, "256MiB", "1MiB..", "Data that is copied."},
};

Experiment about_overlap() {
  return {.name = "overlap",
          .group = "link",
          .summary = "Work that is split over several streams overlaps copies with kernels.",
          .explanation =
              "An upload and a kernel (one way), or an upload, a kernel and a download (two "
              "ways), are split into 1 to 16 parts, each on its own stream. The kernel takes "
              "0.25 to 4 times as long as the upload. Depth first enqueues all work of one "
              "stream before that of the next one; breadth first enqueues all uploads, then all "
              "kernels, then all downloads. `no_overlap` is the sum of all stages, `bound` is "
              "the longest stage, and `predicted` is a model: one of n parts passes through all "
              "stages alone, and each of the other n - 1 parts adds its share of the longest "
              "stage. For one way, with copy time t_T and kernel time t_E, this is t_E + t_T/n "
              "if the kernel takes longer, else t_T + t_E/n. For two ways, uploads and downloads "
              "share the link. Expect times within 5 % of the model, and no difference between "
              "the orders: only early GPUs had one queue for all streams. CUDA C++ Best "
              "Practices Guide, section Asynchronous and Overlapping Transfers with Computation.",
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
          .run = with_cuda<overlap>()};
}

constexpr std::array peer_options = {
    OptionRow{"peer.size", OptionKind::size, "256MiB", "1MiB..", "Data of one copy."},
};

Experiment about_peer() {
  return {
      .name = "peer",
      .group = "link",
      .summary = "GPUs with peer access copy to each other without the host.",
      .explanation =
          "Each rank copies between its own GPU and every other GPU that it sees, in both "
          "directions, while the other ranks wait. A pair of GPUs that two ranks can measure is "
          "measured by the lower one. The methods are: a copy without peer "
          "access; a copy with it; a copy with it that finds the GPUs by their addresses "
          "(unified addressing); and a kernel that writes or reads the memory of the other "
          "GPU. Without peer access, the driver moves the data through the host. `small` is "
          "the time of a copy of 16 bytes. With peer access, expect 0.8 of the theoretical "
          "rate of the NVLinks or of PCIe; without it, a fraction of that. Two GPUs that are "
          "connected without a switch share only some of a GPU's NVLinks. CUDA C++ "
          "Programming Guide, section Peer-to-Peer Memory Access.",
      .reference = "",
      .share = "of the theoretical rate of all NVLinks of the GPU",
      .options = peer_options,
      .figure = {.look = Look::matrix, .x = "to", .y = "rate", .series = "from", .panel = "method"},
      .needs = {.gpus = 2},
      .turns = Turns::one_by_one,
      .run = with_cuda<peer>()};
}

constexpr std::array allocation_options = {
    OptionRow{"allocation.most", OptionKind::size, "256MiB", "4KiB..",
              "The largest allocation. With --quick the default is 64 MiB."},
};

Experiment about_allocation() {
  return {.name = "allocation",
          .group = "link",
          .summary =
              "Allocating from a pool takes less than a microsecond; allocating from the driver "
              "takes far longer.",
          .explanation =
              "The time to allocate and free memory is measured. On the device: with cudaMalloc "
              "and cudaFree, from a stream-ordered pool that keeps freed memory, and as a piece "
              "of one large block. On the host: with cudaHostAlloc, and by registering pages of "
              "4 KiB or 2 MiB. `rate` is the rate of pinning; it is empty if nothing was pinned. "
              "From a pool, expect a microsecond or less; from the driver, 10 us to "
              "milliseconds, because it maps memory in each call. Two cases are faster: the "
              "driver cuts small blocks from a larger one that has room, and it keeps some "
              "pinned memory. Pinning takes time for each page, so expect huge pages to be "
              "faster. CUDA C++ Best Practices Guide, sections Pinned Memory and Allocation; "
              "Programming Guide, chapter Stream Ordered Memory Allocator.",
          .reference = "",
          .options = allocation_options,
          .figure = {.look = Look::lines,
                     .x = "bytes",
                     .y = "time",
                     .series = "method",
                     .log_x = true,
                     .log_y = true,
                     .more_is_better = false},
          .run = with_cuda<allocation>()};
}

Experiment about_timers() {
  return {
      .name = "timers",
      .group = "link",
      .summary = "The host's clock measures only the launch if it does not wait for the kernel.",
      .explanation =
          "Kernels that run for 2 us to 2 ms by the GPU's own timer are timed in three ways: "
          "by the host's clock without waiting, by the host's clock with a wait for the end "
          "of the kernel, and by events. Without waiting, expect a few microseconds, the "
          "time of a launch, for every kernel. With waiting, expect some microseconds too "
          "much, for the launch and the wait. By events, expect a few microseconds too much, "
          "for the start and end of the kernel on the GPU. For the shortest kernel, these "
          "errors are as large as the time itself. CUDA C++ Best Practices Guide, section "
          "Timing.",
      .reference = "Events have a resolution of about 0.5 us.",
      .share = "the reported time over the length that the kernel was given",
      .options = {},
      .figure = {.look = Look::lines,
                 .x = "kernel",
                 .y = "reported",
                 .series = "timer",
                 .log_x = true,
                 .log_y = true,
                 .more_is_better = false},
      .run = with_cuda<timers>()};
}

}  // namespace

std::string share_of_link(const Bench& bench, double rate) {
  const device::GpuFacts& facts = bench.facts();
  const double link = device::pcie_rate(facts.pcie_generation_max, facts.pcie_width_max);
  if (std::isnan(link))
    return "the theoretical rate of the link is unknown: NVML does not report it";
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
  return {about_transfer(), about_batching(),   about_zero_copy(), about_overlap(),
          about_peer(),     about_allocation(), about_timers()};
}

}  // namespace shardstream::experiments::link
