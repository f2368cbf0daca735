// The core type for which OpenBLAS takes its kernels. A version of OpenBLAS does not know
// processors that are newer than itself, and takes them for old ones without AVX.
#pragma once

#include <string_view>

namespace shardstream::gemm::cblas {

/// The facts about a processor that decide which kernels suit it. The names are those of CPUID.
struct Processor {
  bool is_amd = false;
  bool is_zen4 = false;  ///< executes AVX-512 in halves
  bool avx2 = false, fma = false;
  bool avx512f = false, avx512cd = false, avx512bw = false, avx512dq = false, avx512vl = false;
};

/// The processor of this process. An instruction set counts only if the operating system saves its
/// registers, too.
Processor this_processor();

/// The core type that suits the processor better than `detected`, the one that OpenBLAS has chosen
/// by itself; empty if there is none. A core type that this program does not know is one of a newer
/// OpenBLAS, and is kept.
std::string_view better_core(const Processor& processor, std::string_view detected);

}  // namespace shardstream::gemm::cblas
