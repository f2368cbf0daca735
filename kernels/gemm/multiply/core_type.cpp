#include "kernels/gemm/multiply/core_type.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <algorithm>
#include <array>

namespace shardstream::gemm::cblas {
namespace {

/// The instructions that the kernels of a core type use.
enum class Instructions { older, avx2, avx512 };

/// OpenBLAS's core types of x86-64 without kernels for AVX2 or AVX-512.
constexpr std::array<std::string_view, 22> older_cores = {
    "Unknown",   "Generic",    "Katmai",      "Coppermine", "Northwood",  "Prescott",
    "Banias",    "Atom",       "Core2",       "Penryn",     "Dunnington", "Nehalem",
    "Athlon",    "Opteron",    "Bobcat",      "Barcelona",  "Nano",       "Opteron_SSE3",
    "Bulldozer", "Piledriver", "Steamroller", "Sandybridge"};
constexpr std::array<std::string_view, 3> avx2_cores = {"Haswell", "Zen", "Excavator"};

Instructions instructions_of(std::string_view core) {
  if (std::ranges::find(older_cores, core) != older_cores.end()) return Instructions::older;
  if (std::ranges::find(avx2_cores, core) != avx2_cores.end()) return Instructions::avx2;
  return Instructions::avx512;
}

}  // namespace

Processor this_processor() {
  Processor processor;
#if defined(__x86_64__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  processor.is_amd = __get_cpuid(0, &a, &b, &c, &d) != 0 && b == signature_AMD_ebx;
  const bool has_family = __get_cpuid(1, &a, &b, &c, &d) != 0;
  const unsigned family = has_family ? (a >> 8 & 0xf) + (a >> 20 & 0xff) : 0;
  processor.avx2 = __builtin_cpu_supports("avx2");
  processor.fma = __builtin_cpu_supports("fma");
  processor.avx512f = __builtin_cpu_supports("avx512f");
  processor.avx512cd = __builtin_cpu_supports("avx512cd");
  processor.avx512bw = __builtin_cpu_supports("avx512bw");
  processor.avx512dq = __builtin_cpu_supports("avx512dq");
  processor.avx512vl = __builtin_cpu_supports("avx512vl");
  // Zen 3 has the same family, but no AVX-512.
  processor.is_zen4 = processor.is_amd && family == 0x19 && processor.avx512f;
#endif
  return processor;
}

std::string_view better_core(const Processor& processor, std::string_view detected) {
  const bool has_avx2 = processor.avx2 && processor.fma;
  const bool has_avx512 = has_avx2 && processor.avx512f && processor.avx512cd &&
                          processor.avx512bw && processor.avx512dq && processor.avx512vl;
  // On a Zen 4, kernels for AVX2 multiply floats faster (kernels/MEASUREMENTS.md).
  if (processor.is_zen4 && has_avx2) return detected == "Zen" ? "" : "Zen";
  const Instructions found = instructions_of(detected);
  if (has_avx512 && found < Instructions::avx512) return "SkylakeX";
  if (has_avx2 && found < Instructions::avx2) return processor.is_amd ? "Zen" : "Haswell";
  return "";
}

}  // namespace shardstream::gemm::cblas
