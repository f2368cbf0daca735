// Operations on the four bytes of a word (CUDA Math API, section SIMD Intrinsics), and the same on
// one byte for hosts; and a kernel that repeats them.
#pragma once

#include <algorithm>
#include <vector>

namespace shardstream::experiments::instructions {

/// Without functions for several bytes.
struct ByteByByte {
  __device__ static unsigned on_word(unsigned x, unsigned y) {
    unsigned sum = 0;
#pragma unroll
    for (unsigned shift = 0; shift < 32; shift += 8) {
      sum |= (((x >> shift) + (y >> shift)) & 0xffU) << shift;
    }
    return sum;
  }
  static unsigned on_byte(unsigned x, unsigned y) {
    return (x + y) & 0xffU;
  }
};
struct Add {
  __device__ static unsigned on_word(unsigned x, unsigned y) { return __vadd4(x, y); }
  static unsigned on_byte(unsigned x, unsigned y) { return (x + y) & 0xffU; }
};
struct AddSaturated {
  __device__ static unsigned on_word(unsigned x, unsigned y) { return __vaddus4(x, y); }
  static unsigned on_byte(unsigned x, unsigned y) { return std::min(x + y, 0xffU); }
};
struct Difference {
  __device__ static unsigned on_word(unsigned x, unsigned y) { return __vabsdiffu4(x, y); }
  static unsigned on_byte(unsigned x, unsigned y) { return x > y ? x - y : y - x; }
};
struct Maximum {
  __device__ static unsigned on_word(unsigned x, unsigned y) { return __vmaxu4(x, y); }
  static unsigned on_byte(unsigned x, unsigned y) { return std::max(x, y); }
};
struct Average {
  __device__ static unsigned on_word(unsigned x, unsigned y) { return __vavgu4(x, y); }
  static unsigned on_byte(unsigned x, unsigned y) { return (x + y + 1) / 2; }
};

inline constexpr unsigned words_of_thread = 4, byte_steps = 16;

constexpr unsigned first_word(unsigned thread, unsigned chain) {
  return (thread * words_of_thread + chain) * 2654435761U;
}

/// Each word is combined with the next one of its thread, `byte_steps` times in a round.
template <class Operation>
__global__ void repeat_bytes(unsigned rounds, unsigned* results) {
  const unsigned t = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned x[words_of_thread];
#pragma unroll
  for (unsigned c = 0; c < words_of_thread; ++c) x[c] = first_word(t, c);
#pragma unroll 1
  for (unsigned round = 0; round < rounds; ++round) {
#pragma unroll
    for (unsigned step = 0; step < byte_steps; ++step) {
#pragma unroll
      for (unsigned c = 0; c < words_of_thread; ++c) {
        x[c] = Operation::on_word(x[c], x[(c + 1) % words_of_thread]);
      }
    }
  }
#pragma unroll
  for (unsigned c = 0; c < words_of_thread; ++c) results[t * words_of_thread + c] = x[c];
}

/// Whether the words of the first threads are right.
template <class Operation>
bool are_bytes_right(const std::vector<unsigned>& results, unsigned rounds) {
  for (unsigned t = 0; t < results.size() / words_of_thread; ++t) {
    unsigned x[words_of_thread];
    for (unsigned c = 0; c < words_of_thread; ++c) x[c] = first_word(t, c);
    for (unsigned step = 0; step < rounds * byte_steps; ++step) {
      for (unsigned c = 0; c < words_of_thread; ++c) {
        const unsigned y = x[(c + 1) % words_of_thread];
        unsigned word = 0;
        for (unsigned shift = 0; shift < 32; shift += 8) {
          word |= Operation::on_byte(x[c] >> shift & 0xffU, y >> shift & 0xffU) << shift;
        }
        x[c] = word;
      }
    }
    if (!std::equal(x, x + words_of_thread, results.begin() + t * words_of_thread)) return false;
  }
  return true;
}

}  // namespace shardstream::experiments::instructions
