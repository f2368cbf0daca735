#include "kernels/gemm/panel.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <stdexcept>

#include "kernels/gemm/panel_cuda.hpp"
#include "kernels/gemm/rounding.hpp"
#include "kernels/gemm/rows.hpp"
#include "kernels/vector_clones.hpp"

namespace shardstream::gemm {
namespace {

template <class T>
[[gnu::always_inline]] inline void convert_to(Precision precision, const T* from,
                                              std::uint64_t count, void* to) {
  const auto all = [&]<Precision P>(std::integral_constant<Precision, P>) [[gnu::always_inline]] {
    auto* out = static_cast<decltype(rounded<P>(T{}))*>(to);
    for (std::uint64_t i = 0; i < count; ++i) out[i] = rounded<P>(from[i]);
  };
  switch (precision) {  // not with_precision(), which the vector clones would call, not inline
    case Precision::fp64:
      return all(std::integral_constant<Precision, Precision::fp64>{});
    case Precision::fp32:
      return all(std::integral_constant<Precision, Precision::fp32>{});
    case Precision::tf32:
      return all(std::integral_constant<Precision, Precision::tf32>{});
    case Precision::bf16:
      return all(std::integral_constant<Precision, Precision::bf16>{});
    case Precision::fp16:
      return all(std::integral_constant<Precision, Precision::fp16>{});
    case Precision::int8:
      if constexpr (can_round<Precision::int8, T>) {
        return all(std::integral_constant<Precision, Precision::int8>{});
      }
      return;  // canonicalize() has refused it
    case Precision::fp32x3:
      return all(std::integral_constant<Precision, Precision::fp32x3>{});
  }
}

SHARDSTREAM_VECTOR_CLONES
void convert(Precision precision, const float* from, std::uint64_t count, void* to) {
  convert_to(precision, from, count, to);
}
SHARDSTREAM_VECTOR_CLONES
void convert(Precision precision, const double* from, std::uint64_t count, void* to) {
  convert_to(precision, from, count, to);
}
SHARDSTREAM_VECTOR_CLONES
void convert(Precision precision, const std::int32_t* from, std::uint64_t count, void* to) {
  convert_to(precision, from, count, to);
}
SHARDSTREAM_VECTOR_CLONES
void convert(Precision precision, const std::int64_t* from, std::uint64_t count, void* to) {
  convert_to(precision, from, count, to);
}
SHARDSTREAM_VECTOR_CLONES
void convert(Precision precision, const std::int8_t* from, std::uint64_t count, void* to) {
  convert_to(precision, from, count, to);
}
SHARDSTREAM_VECTOR_CLONES
void convert(Precision precision, const std::uint8_t* from, std::uint64_t count, void* to) {
  convert_to(precision, from, count, to);
}

/// Block by block: a block of raw is turned in a buffer that the first-level cache holds.
template <class T>
void transpose_rows(const CanonicalizeArgs& args, Rows rows, std::size_t element) {
  constexpr std::uint64_t edge = 32;
  const T* raw = static_cast<const T*>(args.raw);
  T turned[edge][edge];
  for (std::uint64_t r = rows.begin; r < rows.end; r += edge) {
    const std::uint64_t height = std::min(edge, rows.end - r);
    for (std::uint64_t c = 0; c < args.columns; c += edge) {
      const std::uint64_t width = std::min(edge, args.columns - c);
      for (std::uint64_t j = 0; j < width; ++j) {
        const T* line = raw + (c + j) * args.rows + r;
        for (std::uint64_t i = 0; i < height; ++i) turned[i][j] = line[i];
      }
      for (std::uint64_t i = 0; i < height; ++i) {
        convert(args.precision, turned[i], width,
                static_cast<std::byte*>(args.panel) + ((r + i) * args.ld + c) * element);
      }
    }
  }
}

void canonicalize(const CanonicalizeArgs& args, unsigned part, unsigned parts) {
  if (!takes(args.precision, args.from)) throw std::logic_error("int8 panels are made of i8 alone");
  const Rows rows = rows_of(args.rows, part, parts);
  const std::size_t element = panel_element_bytes(args.precision, true);
  with_element_type(args.from, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (args.transpose) return transpose_rows<T>(args, rows, element);
    for (std::uint64_t r = rows.begin; r < rows.end; ++r) {
      convert(args.precision, static_cast<const T*>(args.raw) + r * args.columns, args.columns,
              static_cast<std::byte*>(args.panel) + r * args.ld * element);
    }
  });
}

void zero(const ZeroArgs& args, unsigned part, unsigned parts) {
  const Rows bytes = rows_of(args.bytes, part, parts);
  std::memset(static_cast<std::byte*>(args.data) + bytes.begin, 0, bytes.end - bytes.begin);
}

using Words [[gnu::vector_size(32)]] = std::uint64_t;

SHARDSTREAM_VECTOR_CLONES
std::uint64_t sum_of_words(const std::byte* data, std::uint64_t bytes) {
  constexpr unsigned flight = 4;  // vectors added at a time
  Words sums[flight] = {};
  std::uint64_t at = 0;
  for (; at + sizeof(sums) <= bytes; at += sizeof(sums)) {
    for (unsigned i = 0; i < flight; ++i) {
      Words words;
      std::memcpy(&words, data + at + i * sizeof(words), sizeof(words));
      sums[i] += words;
    }
  }
  std::uint64_t sum = 0;
  for (const Words& four : sums) sum += four[0] + four[1] + four[2] + four[3];
  for (; at < bytes; at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, data + at, std::min<std::uint64_t>(8, bytes - at));
    sum += word;
  }
  return sum;
}

void sum_words(const WordSumArgs& args, unsigned part, unsigned parts) {
  const Rows words = rows_of((args.bytes + 7) / 8, part, parts);
  const std::uint64_t begin = words.begin * 8, end = std::min(words.end * 8, args.bytes);
  const std::uint64_t sum = word_sum(static_cast<const std::byte*>(args.data) + begin, end - begin);
  std::atomic_ref(*args.sum).fetch_add(sum, std::memory_order_relaxed);
}

template <class T>
[[gnu::always_inline]] inline void finish_elements(const T* tile, const T* c0, double alpha,
                                                   double beta, std::uint64_t count, T* out) {
  if (c0 == nullptr) {
    for (std::uint64_t i = 0; i < count; ++i) out[i] = finished<T>(alpha * tile[i]);
  } else {
    for (std::uint64_t i = 0; i < count; ++i) {
      out[i] = finished<T>(alpha * tile[i] + beta * c0[i]);
    }
  }
}
SHARDSTREAM_VECTOR_CLONES
void finish_row(const float* tile, const float* c0, double alpha, double beta, std::uint64_t count,
                float* out) {
  finish_elements(tile, c0, alpha, beta, count, out);
}
SHARDSTREAM_VECTOR_CLONES
void finish_row(const std::int32_t* tile, const std::int32_t* c0, double alpha, double beta,
                std::uint64_t count, std::int32_t* out) {
  finish_elements(tile, c0, alpha, beta, count, out);
}
SHARDSTREAM_VECTOR_CLONES
void finish_row(const double* tile, const double* c0, double alpha, double beta,
                std::uint64_t count, double* out) {
  finish_elements(tile, c0, alpha, beta, count, out);
}

template <class T>
void finish_rows(const FinishArgs& args, Rows rows) {
  const auto* c0 = static_cast<const T*>(args.c0);
  for (std::uint64_t r = rows.begin; r < rows.end; ++r) {
    finish_row(static_cast<const T*>(args.tile) + r * args.ld_tile,
               c0 == nullptr ? nullptr : c0 + r * args.columns, args.alpha, args.beta, args.columns,
               static_cast<T*>(args.out) + r * args.ld_out);
  }
}

void finish(const FinishArgs& args, unsigned part, unsigned parts) {
  const Rows rows = rows_of(args.rows, part, parts);
  with_accumulator_type(args.precision,
                        [&](auto of) { finish_rows<typename decltype(of)::type>(args, rows); });
}

}  // namespace

bool needs_canonicalize(ElementType from, bool transpose, Precision precision) {
  const bool floats = precision == Precision::fp32 || precision == Precision::fp32x3;
  const bool same = (precision == Precision::fp64 && from == ElementType::f64) ||
                    (floats && from == ElementType::f32);
  return transpose || !same;
}

std::uint64_t word_sum(const void* data, std::uint64_t bytes) {
  return sum_of_words(static_cast<const std::byte*>(data), bytes);
}

Kernel<CanonicalizeArgs> canonicalize_kernel() {
  return {"gemm_canonicalize", canonicalize, with_cuda<cuda::canonicalize>()};
}
Kernel<ZeroArgs> zero_kernel() {
  return {"gemm_zero", zero, with_cuda<cuda::zero>()};
}
Kernel<WordSumArgs> word_sum_kernel() {
  return {"gemm_word_sum", sum_words, with_cuda<cuda::sum_words>()};
}
Kernel<FinishArgs> finish_kernel() {
  return {"gemm_finish", finish, with_cuda<cuda::finish>()};
}

}  // namespace shardstream::gemm
