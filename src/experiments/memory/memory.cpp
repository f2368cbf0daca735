#include "experiments/memory/memory.hpp"

#include <array>

#include "kernels/kernel.hpp"

namespace shardstream::experiments::memory {
namespace {

constexpr std::array stride_options = {
    OptionRow{"stride.size", OptionKind::size, "4GiB", "1MiB..",
              "Memory that the copy with the largest stride reaches over, on each side."},
    OptionRow{"stride.most", OptionKind::count, "32", "1..1024", "The largest stride, in words."},
};

}  // namespace

std::vector<Experiment> experiments() {
  return {
      {.name = "stride",
       .group = "memory",
       .summary = "A warp that reads every s-th word moves s times the bytes that it uses.",
       .explanation =
           "Each thread copies one float. Neighbouring threads copy words that are s words apart, "
           "with s from 1 to stride.most. A warp's 32 words lie in 32-byte sectors, and memory "
           "moves "
           "whole sectors: with s = 2 half of each sector is used, and from s = 8 on one word in "
           "eight. Expect the useful rate to fall as 1/s down to 1/8, and then slowly further. "
           "CUDA C++ Best Practices Guide, section Strided Accesses.",
       .reference = "Tesla V100: a stride of 2 halves the rate, and it falls on towards large "
                    "strides.",
       .options = stride_options,
       .figure = {.look = Look::lines, .x = "stride", .y = "rate"},
       .needs = {.ceilings = {"device_copy"}},
       .run = with_cuda<stride>()},
  };
}

}  // namespace shardstream::experiments::memory
