// Hopper's instructions for tiles: barriers that count bytes, bulk copies of boxes of a matrix
// (TMA) and products of a warpgroup, four warps (PTX ISA, sections mbarrier, cp.async.bulk.tensor
// and Asynchronous Warpgroup Level Matrix Instructions). Only for the architecture sm_90a.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "experiments/ladders/mma.cuh"

namespace shardstream::experiments::ladders {

// ------------------------------------------------------------------------------------- barriers

/// A barrier in shared memory. Its phases are numbered from 0. A phase ends when the expected
/// threads have arrived and the expected bytes have been copied.
struct Barrier {
  std::uint64_t state;

  /// One thread calls it for all barriers, then publish_barriers(), before the block synchronises.
  __device__ void init(unsigned arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;"
                 :
                 : "r"(shared_address(&state)), "r"(arrivals)
                 : "memory");
  }
  __device__ void arrive() {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];"
                 :
                 : "r"(shared_address(&state))
                 : "memory");
  }
  /// Arrives, and lets the phase wait for the copies of `bytes`, too.
  __device__ void arrive_and_expect(unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 :
                 : "r"(shared_address(&state)), "r"(bytes)
                 : "memory");
  }
  /// Arrives at this barrier of block `rank` of the cluster.
  __device__ void arrive_at(unsigned rank) {
    asm volatile(
        "{\n"
        ".reg .b32 there;\n"
        "mapa.shared::cluster.u32 there, %0, %1;\n"
        "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [there];\n"
        "}"
        :
        : "r"(shared_address(&state)), "r"(rank)
        : "memory");
  }
  /// Waits for the end of the last phase with this parity (the number of the phase modulo 2). At
  /// the beginning, the phase before phase 0, which has parity 1, counts as ended.
  __device__ void wait(unsigned parity) {
    unsigned has_ended = 0;
    while (has_ended == 0) {
      asm volatile(
          "{\n"
          ".reg .pred ended;\n"
          "mbarrier.try_wait.parity.shared::cta.b64 ended, [%1], %2;\n"
          "selp.u32 %0, 1, 0, ended;\n"
          "}"
          : "=r"(has_ended)
          : "r"(shared_address(&state)), "r"(parity)
          : "memory");
    }
  }
  /// The same if other blocks of the cluster arrive at the barrier, too.
  __device__ void wait_for_cluster(unsigned parity) {
    unsigned has_ended = 0;
    while (has_ended == 0) {
      asm volatile(
          "{\n"
          ".reg .pred ended;\n"
          "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 ended, [%1], %2;\n"
          "selp.u32 %0, 1, 0, ended;\n"
          "}"
          : "=r"(has_ended)
          : "r"(shared_address(&state)), "r"(parity)
          : "memory");
    }
  }
};

/// Makes initialised barriers visible to bulk copies and to other blocks of the cluster.
__device__ inline void publish_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

/// The number of this block in its cluster.
__device__ inline unsigned rank_in_cluster() {
  unsigned rank = 0;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

/// All threads of the cluster wait for each other.
__device__ inline void synchronize_cluster() {
  asm volatile(
      "barrier.cluster.arrive.release;\n"
      "barrier.cluster.wait.acquire;"
      :
      :
      : "memory");
}

// ----------------------------------------------------------------------------------- bulk copies

/// Begins to copy the box that starts at (row, column) of the matrix of `map` to shared memory. Its
/// bytes count for the barrier. One thread calls it for the whole box.
__device__ inline void begin_copy(void* to, const CUtensorMap& map, Barrier& barrier, unsigned row,
                                  unsigned column) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%3, %4}], [%2];"
      :
      : "r"(shared_address(to)), "l"(&map), "r"(shared_address(&barrier.state)), "r"(column),
        "r"(row)
      : "memory");
}

/// The same for all blocks of the cluster whose bits are set in `blocks`: the box goes to the same
/// place in the shared memory of each, and its bytes count for the same barrier of each.
__device__ inline void begin_multicast(void* to, const CUtensorMap& map, Barrier& barrier,
                                       unsigned row, unsigned column, std::uint16_t blocks) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%3, %4}], [%2], %5;"
      :
      : "r"(shared_address(to)), "l"(&map), "r"(shared_address(&barrier.state)), "r"(column),
        "r"(row), "h"(blocks)
      : "memory");
}

// ------------------------------------------------------------------------ products of a warpgroup

/// The descriptor of a factor in shared memory whose rows of 128 bytes are swizzled: 16-byte word w
/// of row r lies at word w xor r mod 8. Rows come in groups of 8, which take 1024 bytes and begin
/// at a multiple of it. `next_group` is the distance of groups in bytes, `next_column` that of
/// blocks of 64 elements of a row, if a product needs several (PTX ISA, section Matrix Descriptor
/// Format).
__device__ inline std::uint64_t describe(const void* first, unsigned next_group,
                                         unsigned next_column) {
  constexpr std::uint64_t swizzled_by_128_bytes = std::uint64_t{1} << 62;
  const auto in_words = [](unsigned bytes) { return std::uint64_t{(bytes & 0x3ffffU) >> 4}; };
  return swizzled_by_128_bytes | in_words(next_group) << 32 | in_words(next_column) << 16 |
         in_words(shared_address(first));
}

/// The descriptor of what lies `bytes` behind.
__device__ inline std::uint64_t behind(std::uint64_t descriptor, unsigned bytes) {
  return descriptor + (bytes >> 4);
}

/// All threads of a warpgroup call it before begin_multiply_add(), after accesses to the sums.
__device__ inline void begin_products() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

// A warpgroup multiplies a of 64 x 16 elements of bf16, whose rows lie along k, and b of 16 x N,
// whose rows lie along N. Warp w of the warpgroup has rows 16w to 16w + 15 of the sums. Its lane l
// has, for each 8 columns, four sums like those of mma (Sums16x8). The instruction returns at once:
// neither the sums nor the shared memory may be touched before wait_for_products().

/// Begins to add the product of a (64 x 16) and b (16 x 128) to `sums`.
__device__ inline void begin_multiply_add(float (&sums)[64], std::uint64_t a, std::uint64_t b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
      "%64, %65, 1, 1, 1, 0, 1;"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]), "+f"(sums[4]), "+f"(sums[5]),
        "+f"(sums[6]), "+f"(sums[7]), "+f"(sums[8]), "+f"(sums[9]), "+f"(sums[10]), "+f"(sums[11]),
        "+f"(sums[12]), "+f"(sums[13]), "+f"(sums[14]), "+f"(sums[15]), "+f"(sums[16]),
        "+f"(sums[17]), "+f"(sums[18]), "+f"(sums[19]), "+f"(sums[20]), "+f"(sums[21]),
        "+f"(sums[22]), "+f"(sums[23]), "+f"(sums[24]), "+f"(sums[25]), "+f"(sums[26]),
        "+f"(sums[27]), "+f"(sums[28]), "+f"(sums[29]), "+f"(sums[30]), "+f"(sums[31]),
        "+f"(sums[32]), "+f"(sums[33]), "+f"(sums[34]), "+f"(sums[35]), "+f"(sums[36]),
        "+f"(sums[37]), "+f"(sums[38]), "+f"(sums[39]), "+f"(sums[40]), "+f"(sums[41]),
        "+f"(sums[42]), "+f"(sums[43]), "+f"(sums[44]), "+f"(sums[45]), "+f"(sums[46]),
        "+f"(sums[47]), "+f"(sums[48]), "+f"(sums[49]), "+f"(sums[50]), "+f"(sums[51]),
        "+f"(sums[52]), "+f"(sums[53]), "+f"(sums[54]), "+f"(sums[55]), "+f"(sums[56]),
        "+f"(sums[57]), "+f"(sums[58]), "+f"(sums[59]), "+f"(sums[60]), "+f"(sums[61]),
        "+f"(sums[62]), "+f"(sums[63])
      : "l"(a), "l"(b));
}

/// Begins to add the product of a (64 x 16) and b (16 x 256) to `sums`.
__device__ inline void begin_multiply_add(float (&sums)[128], std::uint64_t a, std::uint64_t b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
      "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
      "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
      "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "
      "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, "
      "%127}, "
      "%128, %129, 1, 1, 1, 0, 1;"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]), "+f"(sums[4]), "+f"(sums[5]),
        "+f"(sums[6]), "+f"(sums[7]), "+f"(sums[8]), "+f"(sums[9]), "+f"(sums[10]), "+f"(sums[11]),
        "+f"(sums[12]), "+f"(sums[13]), "+f"(sums[14]), "+f"(sums[15]), "+f"(sums[16]),
        "+f"(sums[17]), "+f"(sums[18]), "+f"(sums[19]), "+f"(sums[20]), "+f"(sums[21]),
        "+f"(sums[22]), "+f"(sums[23]), "+f"(sums[24]), "+f"(sums[25]), "+f"(sums[26]),
        "+f"(sums[27]), "+f"(sums[28]), "+f"(sums[29]), "+f"(sums[30]), "+f"(sums[31]),
        "+f"(sums[32]), "+f"(sums[33]), "+f"(sums[34]), "+f"(sums[35]), "+f"(sums[36]),
        "+f"(sums[37]), "+f"(sums[38]), "+f"(sums[39]), "+f"(sums[40]), "+f"(sums[41]),
        "+f"(sums[42]), "+f"(sums[43]), "+f"(sums[44]), "+f"(sums[45]), "+f"(sums[46]),
        "+f"(sums[47]), "+f"(sums[48]), "+f"(sums[49]), "+f"(sums[50]), "+f"(sums[51]),
        "+f"(sums[52]), "+f"(sums[53]), "+f"(sums[54]), "+f"(sums[55]), "+f"(sums[56]),
        "+f"(sums[57]), "+f"(sums[58]), "+f"(sums[59]), "+f"(sums[60]), "+f"(sums[61]),
        "+f"(sums[62]), "+f"(sums[63]), "+f"(sums[64]), "+f"(sums[65]), "+f"(sums[66]),
        "+f"(sums[67]), "+f"(sums[68]), "+f"(sums[69]), "+f"(sums[70]), "+f"(sums[71]),
        "+f"(sums[72]), "+f"(sums[73]), "+f"(sums[74]), "+f"(sums[75]), "+f"(sums[76]),
        "+f"(sums[77]), "+f"(sums[78]), "+f"(sums[79]), "+f"(sums[80]), "+f"(sums[81]),
        "+f"(sums[82]), "+f"(sums[83]), "+f"(sums[84]), "+f"(sums[85]), "+f"(sums[86]),
        "+f"(sums[87]), "+f"(sums[88]), "+f"(sums[89]), "+f"(sums[90]), "+f"(sums[91]),
        "+f"(sums[92]), "+f"(sums[93]), "+f"(sums[94]), "+f"(sums[95]), "+f"(sums[96]),
        "+f"(sums[97]), "+f"(sums[98]), "+f"(sums[99]), "+f"(sums[100]), "+f"(sums[101]),
        "+f"(sums[102]), "+f"(sums[103]), "+f"(sums[104]), "+f"(sums[105]), "+f"(sums[106]),
        "+f"(sums[107]), "+f"(sums[108]), "+f"(sums[109]), "+f"(sums[110]), "+f"(sums[111]),
        "+f"(sums[112]), "+f"(sums[113]), "+f"(sums[114]), "+f"(sums[115]), "+f"(sums[116]),
        "+f"(sums[117]), "+f"(sums[118]), "+f"(sums[119]), "+f"(sums[120]), "+f"(sums[121]),
        "+f"(sums[122]), "+f"(sums[123]), "+f"(sums[124]), "+f"(sums[125]), "+f"(sums[126]),
        "+f"(sums[127])
      : "l"(a), "l"(b));
}

/// Ends a group of products.
__device__ inline void end_group() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/// Waits until at most the last `Pending` groups of this warpgroup are not done.
template <unsigned Pending>
__device__ void wait_for_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Pending) : "memory");
}

/// Keeps the compiler from moving accesses to the sums across this point.
template <unsigned Count>
__device__ void pin(float (&sums)[Count]) {
#pragma unroll
  for (unsigned i = 0; i < Count; ++i) asm volatile("" : "+f"(sums[i])::"memory");
}

// -------------------------------------------------------------------------------------- registers

/// Sets the number of registers of each thread of a warpgroup, a multiple of 8: fewer or more than
/// before. All its threads call it. Taking more waits until another warpgroup has released them.
template <unsigned Count>
__device__ void release_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Count));
}
template <unsigned Count>
__device__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Count));
}

}  // namespace shardstream::experiments::ladders
