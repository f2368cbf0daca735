#include "experiments/memory/memory.hpp"

#include <array>

#include "kernels/kernel.hpp"

namespace shardstream::experiments::memory {
namespace {

constexpr std::array bandwidth_options = {
    OptionRow{"bandwidth.size", OptionKind::size, "4GiB", "1MiB..", "Size of each array."},
    OptionRow{"bandwidth.clock", OptionKind::number, "auto", "auto|1..100000",
              "The memory clock in MHz, for the theoretical rate; auto reads it from the GPU."},
    OptionRow{"bandwidth.width", OptionKind::number, "auto", "auto|1..100000",
              "The width of the memory bus in bits; auto reads it from the GPU."},
};

Experiment about_bandwidth() {
  return {.name = "bandwidth",
          .group = "memory",
          .summary = "Simple kernels reach most of the theoretical rate of device memory.",
          .explanation =
              "Six kernels use arrays that are much larger than any cache: read, write, copy, "
              "scale, add and triad. The rate counts the bytes that a kernel reads and writes "
              "(the effective bandwidth). The remark compares it with the theoretical rate: 2 x "
              "memory clock x bus width / 8. Expect 0.8 to 0.95 of that. Kernels that both read "
              "and write are slower than those that only read, because the bus must change its "
              "direction. Without a GPU, bandwidth.clock and bandwidth.width give the "
              "theoretical rate. CUDA C++ Best Practices Guide, chapter Performance Metrics.",
          .reference = "Tesla V100: theoretical 898 GB/s (877 MHz, 4096 bits).",
          .share = "of the rate of a copy in device memory; for `read`, of the rate of reading it",
          .options = bandwidth_options,
          .figure = {.look = Look::bars, .x = "kernel", .y = "rate"},
          .needs = {.ceilings = {"device_copy", "device_read"}},
          .run = with_cuda<bandwidth>(),
          .run_host = theoretical_bandwidth};
}

constexpr std::array offset_options = {
    OptionRow{"offset.size", OptionKind::size, "1GiB", "1MiB..", "Size of each array."},
};

Experiment about_offset() {
  return {.name = "offset",
          .group = "memory",
          .summary = "An offset makes each warp read one more sector; caches serve most of it.",
          .explanation =
              "Each thread copies one float, and the first float lies 0 to 32 words after the "
              "start of the array. A warp reads 128 contiguous bytes. These are four sectors of "
              "32 bytes if they begin at a sector, otherwise five. The next warp reads the rest "
              "of the fifth sector, which is then in a cache: expect a loss of at most a tenth. "
              "With an offset that is not a multiple of 32 words, a warp also reads from two "
              "lines of 128 bytes instead of one, which may cost a little. CUDA C++ Best "
              "Practices Guide, section A Sequential but Misaligned Access Pattern.",
          .reference =
              "Tesla V100: about 790 GB/s aligned or at multiples of 8 words, nine tenths of "
              "that otherwise.",
          .share = "of the rate of a copy in device memory, which moves wider words",
          .options = offset_options,
          .figure = {.look = Look::lines, .x = "offset", .y = "rate"},
          .needs = {.ceilings = {"device_copy"}},
          .run = with_cuda<offset>()};
}

constexpr std::array stride_options = {
    OptionRow{"stride.size", OptionKind::size, "4GiB", "1MiB..",
              "Size of each array. All strides copy as many words as the largest stride can."},
    OptionRow{"stride.most", OptionKind::count, "32", "1..1024", "The largest stride, in words."},
};

Experiment about_stride() {
  return {.name = "stride",
          .group = "memory",
          .summary =
              "With a stride of s words, a warp uses 1/s of the bytes that memory moves, but at "
              "least 1/8.",
          .explanation =
              "Each thread copies one float. Neighbouring threads copy words that are s words "
              "apart, with s from 1 to stride.most. Memory moves whole sectors of 32 bytes: with "
              "s = 2, half of each sector is used, and from s = 8 on, one word in eight. Expect "
              "the useful rate to fall as 1/s down to 1/8. With larger strides, each word still "
              "needs one sector, but the sectors are spread over more lines and pages of memory, "
              "so the rate falls further. CUDA C++ Best Practices Guide, section Strided "
              "Accesses.",
          .reference =
              "Tesla V100: a stride of 2 halves the rate, and it falls on towards large strides.",
          .share = "of the rate of a copy in device memory, which moves wider words",
          .options = stride_options,
          .figure = {.look = Look::lines, .x = "stride", .y = "rate"},
          .needs = {.ceilings = {"device_copy"}},
          .run = with_cuda<stride>()};
}

constexpr std::array alignment_options = {
    OptionRow{"alignment.size", OptionKind::size, "1GiB", "1MiB..", "Size of each array."},
};

Experiment about_alignment() {
  return {.name = "alignment",
          .group = "memory",
          .summary = "Wide aligned loads move more bytes with each instruction.",
          .explanation =
              "Arrays are copied in words of 1, 2, 4, 8 and 16 bytes per thread; in records of "
              "12 bytes, and in the same records padded to 16; and as rows of 1001 floats, "
              "without padding and with padding to a pitch of 1024. One instruction loads 1, 2, "
              "4, 8 or 16 bytes that are aligned to their size; records of another size need "
              "several. Expect narrow words to be slower, because too few bytes are in flight. "
              "CUDA C++ Programming Guide, section Device Memory Accesses.",
          .reference = "",
          .share = "of the rate of a copy in device memory",
          .options = alignment_options,
          .figure = {.look = Look::bars, .x = "case", .y = "rate"},
          .needs = {.ceilings = {"device_copy"}},
          .run = with_cuda<alignment>()};
}

constexpr std::array latency_options = {
    OptionRow{"latency.most", OptionKind::size, "8GiB", "64KiB..",
              "The largest working set, rounded down to a power of two."},
};

Experiment about_latency() {
  return {.name = "latency",
          .group = "memory",
          .summary = "A load takes tens of cycles from L1 and hundreds from memory.",
          .explanation =
              "A single thread follows pointers in random order, one in each line of 128 bytes, "
              "through working sets of 1 KiB to latency.most. Each load waits for the previous "
              "one, so the time of a step is the latency. It rises when the working set exceeds "
              "L1, L2, and the memory that the TLB covers; a note names the levels that were "
              "found. If a set is a little larger than a cache, a part of it still lies there, "
              "and its time is between two levels. The latencies of shared memory, of pinned "
              "host memory (over the link) and, if there is one, of another GPU's memory are "
              "measured as well. Expect L2 to take about ten times as long as L1, and memory "
              "twice as long as L2. A GPU needs many warps because others run while one waits. "
              "CUDA C++ Programming Guide, section Maximize Instruction Throughput; Best "
              "Practices Guide, chapter Memory Optimizations.",
          .reference = "Tesla V100: L1 30, L2 214, memory 435 cycles.",
          .options = latency_options,
          .figure = {.look = Look::lines,
                     .x = "bytes",
                     .y = "latency",
                     .series = "memory",
                     .log_x = true,
                     .log_y = true,
                     .more_is_better = false},
          .run = with_cuda<latency>()};
}

constexpr std::array cache_options = {
    OptionRow{"cache.most", OptionKind::size, "256MiB", "64KiB..16GiB", "The largest working set."},
};

Experiment about_cache() {
  return {.name = "cache",
          .group = "memory",
          .summary =
              "Data that is read again comes from L1 or L2, several times as fast as from memory.",
          .explanation =
              "All multiprocessors read the same working set repeatedly, each with one block. "
              "The sets have 4 KiB to cache.most bytes. Every multiprocessor has its own L1, so "
              "a set that fits in L1 (up to some 200 KiB) is read at the rate of all L1 caches; "
              "a set that fits in L2 at the rate of L2; a larger one at the rate of device "
              "memory. The steps show the sizes of the caches. Below 64 KiB, a pass has fewer "
              "than eight loads per thread, which may be too few for the rate of L1; 4 KiB are too "
              "few bytes for all threads of a block, so half as many read them. Each block "
              "begins at a different offset. In sets of a few MiB, several multiprocessors still "
              "read the same cache line almost simultaneously. Recent GPUs merge such reads, so "
              "the rate is higher than for larger sets in L2. Expect L1 to be several times as "
              "fast as L2, and L2 faster than memory. CUDA C++ Best Practices Guide, chapter "
              "Memory Optimizations.",
          .reference = "Tesla V100: L1 13700, L2 2500 GB/s.",
          .share = "of the rate of reading device memory",
          .options = cache_options,
          .figure = {.look = Look::lines, .x = "bytes", .y = "rate", .log_x = true, .log_y = true},
          .needs = {.ceilings = {"device_read"}},
          .run = with_cuda<cache>()};
}

Experiment about_async_copy() {
  return {.name = "async-copy",
          .group = "memory",
          .summary =
              "Asynchronous copies to shared memory need no registers and keep no thread waiting.",
          .explanation =
              "Each block copies data from device memory to shared memory, in words of 4, 8 or "
              "16 bytes and 1 to 8 words per thread. The methods are: through registers; "
              "asynchronous copies by the threads (cp.async); and one bulk copy by the block "
              "(compute capability 9.0). The result is the number of clocks per byte, from the "
              "first copy until all threads see the data. Asynchronous copies are all in flight "
              "at once. Through registers, four loads are in flight at a time, because the "
              "compiler unrolls the loop by four. The remaining words follow with fewer loads in "
              "flight, so 4 and 8 words per thread take fewer clocks per byte than 3 and 6. "
              "Expect words of 8 and 16 bytes to be best. CUDA C++ Best Practices Guide, section "
              "Asynchronous Copy from Global Memory to Shared Memory.",
          .reference =
              "A100: asynchronous copies of 8 and 16 bytes are best; the number of words need "
              "not be a multiple of four.",
          .share = "of the speed through registers with as many words of the same size",
          .options = {},
          .figure = {.look = Look::lines,
                     .x = "words",
                     .y = "clocks",
                     .series = "method",
                     .log_y = true,
                     .more_is_better = false},
          .needs = {.compute_capability = 80},
          .run = with_cuda<async_copy>()};
}

Experiment about_banks() {
  return {.name = "banks",
          .group = "memory",
          .summary = "Words in the same bank of shared memory are read one after the other.",
          .explanation =
              "All warps read shared memory with strides of 1 to 32 words. Two lanes conflict if "
              "their words are different and lie in the same one of the 32 banks. If g is the "
              "greatest common divisor of the stride and 32, expect g-way conflicts, which take "
              "g times as long, and none for odd strides. Then a matrix is transposed in three "
              "ways: without shared memory; through a tile of 32 x 32 words, in which each "
              "column lies in one bank; and through a tile with one word of padding in each row. "
              "CUDA C++ Best Practices Guide, section Shared Memory.",
          .reference = "",
          .share =
              "for reads, of the rate of stride 1; for transposes, of the rate of a copy in "
              "device memory",
          .options = {},
          .figure = {.look = Look::bars, .x = "case", .y = "rate"},
          .needs = {.ceilings = {"device_copy"}},
          .run = with_cuda<banks>()};
}

constexpr std::array l2_window_options = {
    OptionRow{
        "l2-window.stream", OptionKind::size, "1GiB", "64MiB..",
        "Size of the stream of data that is used once, at least four times the part of the L2 "
        "cache that is set aside."},
};

Experiment about_l2_window() {
  return {.name = "l2-window",
          .group = "memory",
          .summary = "A part of the L2 cache can be reserved for data that is used repeatedly.",
          .explanation =
              "A kernel adds a small hot region, repeatedly, to a long stream of data that is "
              "used once. Without a window, the stream evicts the hot region from the L2 cache. "
              "An access policy window keeps lines of the region in a part of the cache that is "
              "set aside. The region grows from a third of that part to twice its size. The hit "
              "ratio is 1, or tuned so that only as many lines stay as fit. Expect a gain while "
              "the region fits. If it does not fit, GPUs differ: with hit ratio 1 the kernel may "
              "be slower, or still gain. CUDA C++ Best Practices Guide, section L2 Cache.",
          .reference =
              "A100, 30 MB set aside: up to 50 % faster while the region fits, 10 % slower if "
              "it does not fit; the tuned hit ratio recovers that.",
          .share = "of the rate of the same kernel without a window",
          .options = l2_window_options,
          .figure = {.look = Look::lines, .x = "of_set_aside", .y = "rate", .series = "policy"},
          .needs = {.compute_capability = 80},
          .run = with_cuda<l2_window>()};
}

Experiment about_texture() {
  return {.name = "texture",
          .group = "memory",
          .summary =
              "Texture units clamp, wrap and filter in hardware, but are not always faster than "
              "plain loads.",
          .explanation =
              "A matrix is read by rows, by columns, and as neighbourhoods of 5 x 5 elements, "
              "through global memory and through a texture. A texture stores neighbours in both "
              "dimensions close together, so columns cost less. Expect no gain for rows, and a "
              "loss for neighbourhoods on recent GPUs: there, plain loads come from L1, which "
              "serves more words per cycle than the texture units. Clamped, wrapped and filtered "
              "reads are checked. CUDA C++ Best Practices Guide, section Texture Memory.",
          .reference = "",
          .share = "of the rate of a copy in device memory",
          .options = {},
          .figure = {.look = Look::bars, .x = "case", .y = "rate"},
          .needs = {.ceilings = {"device_copy"}},
          .run = with_cuda<texture>()};
}

Experiment about_constant() {
  return {.name = "constant",
          .group = "memory",
          .summary = "Constant memory serves one address at a time, to all lanes that read it.",
          .explanation =
              "The lanes of a warp read 1, 2, 4, ... 32 different addresses, each in its own "
              "cache line, from constant memory and from global memory. Constant memory serves "
              "one address after the other, and global memory one line after the other. Expect "
              "the time to grow with the number of addresses in both memories, but faster in "
              "constant memory. CUDA C++ Best Practices Guide, section Constant Memory.",
          .reference = "",
          .share = "of the speed with one address",
          .options = {},
          .figure = {.look = Look::lines,
                     .x = "addresses",
                     .y = "time",
                     .series = "memory",
                     .more_is_better = false},
          .run = with_cuda<constant>()};
}

Experiment about_spills() {
  return {.name = "spills",
          .group = "memory",
          .summary = "Values that do not fit in registers go to local memory, which is slower.",
          .explanation =
              "Each thread repeatedly mixes an array of 32 values. All of it fits in registers "
              "if every index is known at compile time. Then the kernel gets too few registers, "
              "by launch bounds and by a cap (__maxnreg__). Last, an index is known only at run "
              "time, so the array must be addressable. The table shows the registers and the "
              "bytes of local memory per thread, as the compiler reports them. Expect the time "
              "to grow with the bytes of local memory. CUDA C++ Best Practices Guide, sections "
              "Registers and Local Memory.",
          .reference = "",
          .share = "of the speed with all values in registers",
          .options = {},
          .figure = {.look = Look::bars, .x = "case", .y = "time", .more_is_better = false},
          .run = with_cuda<spills>()};
}

}  // namespace

std::vector<Experiment> experiments() {
  return {about_bandwidth(), about_offset(),  about_stride(),     about_alignment(),
          about_latency(),   about_cache(),   about_async_copy(), about_banks(),
          about_l2_window(), about_texture(), about_constant(),   about_spills()};
}

}  // namespace shardstream::experiments::memory
