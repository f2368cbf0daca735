#include "kernels/gemm/panel/round_elements.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <stdexcept>

#include "kernels/gemm/panel/checksum_loop.hpp"
#include "kernels/gemm/panel/rounding.hpp"
#include "kernels/vector_clones.hpp"

namespace shardstream::gemm {
namespace {

/// The bits of the half nearest to x, ties to even: detail::to_fp16() and the encoding in one step.
/// NaN has the bits that GPUs produce.
constexpr std::uint16_t half_bits(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t size = bits & 0x7fffffffu;
  const std::uint32_t normal = (size - 0x38000000u + 0xfffu + ((size >> 13) & 1u)) >> 13;
  // The last bit of a float from 0.5 to 1 is 2^-24, a half's smallest number.
  const auto subnormal = std::bit_cast<std::uint32_t>(std::bit_cast<float>(size) + 0.5f);
  const std::uint32_t finite =
      detail::select(size < 0x38800000u, subnormal - 0x3f000000u, normal);  // 2^-14
  const std::uint32_t number = std::min(finite, 0x7c00u);
  return static_cast<std::uint16_t>(detail::select(size > 0x7f800000u, 0x7fffu, number) |
                                    (bits >> 16 & 0x8000u));
}

/// Converts x to an element of the panel.
template <Format F, Backend On, class T>
[[gnu::always_inline]] constexpr auto element_of(T x) {
  if constexpr (F == Format::bf16 && On != Backend::host) {
    return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(rounded<F>(x)) >> 16);
  } else if constexpr (F == Format::fp16 && On != Backend::host) {
    return half_bits(detail::odd_float(x));
  } else if constexpr (F == Format::i8 && On != Backend::host) {
    return x;
  } else {
    return rounded<F>(x);
  }
}

template <Format F, Backend On, class T>
[[gnu::always_inline]] inline std::uint64_t round_all(const T* from, std::uint64_t count,
                                                      void* to) {
  using Out = decltype(element_of<F, On>(T{}));
  // Uses a buffer in the first-level cache, since a compiler does not vectorise a conversion that
  // may overwrite elements that it has not read yet.
  constexpr std::uint64_t block = 128;
  Out buffer[block];
  std::uint64_t sum = 0;
  for (std::uint64_t first = 0; first < count; first += block) {
    const std::uint64_t some = std::min(block, count - first);
    detail::fetch_ahead(from, first, some, count);
    detail::claim_ahead(static_cast<std::byte*>(to), first * sizeof(Out), some * sizeof(Out),
                        count * sizeof(Out));
    for (std::uint64_t i = 0; i < some; ++i) buffer[i] = element_of<F, On>(from[first + i]);
    const auto* const bytes = reinterpret_cast<const std::byte*>(buffer);
    sum += detail::sum_all_words(bytes, some * sizeof(Out));
    std::memcpy(static_cast<Out*>(to) + first, buffer, some * sizeof(Out));
  }
  return sum;
}

/// A GPU stores f64, f32 and tf32 as a host does.
template <class T>
SHARDSTREAM_VECTOR_CLONES std::uint64_t round_from(Format format, Backend backend, const T* from,
                                                   std::uint64_t count, void* to) {
  constexpr Backend host = Backend::host, gpu = Backend::cuda;
  switch (format) {  // not with_format(), which would not be inlined into the vector clones
    case Format::f64:
      return round_all<Format::f64, host>(from, count, to);
    case Format::f32:
      return round_all<Format::f32, host>(from, count, to);
    case Format::tf32:
      return round_all<Format::tf32, host>(from, count, to);
    case Format::bf16:
      return backend == host ? round_all<Format::bf16, host>(from, count, to)
                             : round_all<Format::bf16, gpu>(from, count, to);
    case Format::fp16:
      return backend == host ? round_all<Format::fp16, host>(from, count, to)
                             : round_all<Format::fp16, gpu>(from, count, to);
    case Format::i8:
      if constexpr (can_round<Format::i8, T>) {
        return backend == host ? round_all<Format::i8, host>(from, count, to)
                               : round_all<Format::i8, gpu>(from, count, to);
      }
      break;  // round_elements() has rejected it
  }
  return 0;
}

}  // namespace

bool stored_as_panel(ElementType from, Precision precision, Backend backend) {
  const Format format = traits_of(precision).panel;
  return (format == Format::f64 && from == ElementType::f64) ||
         (format == Format::f32 && from == ElementType::f32) ||
         (format == Format::i8 && from == ElementType::i8 && backend != Backend::host);
}

bool readers_round(ElementType from, Precision precision, Backend backend) {
  return !stored_as_panel(from, precision, backend) &&
         panel_element_bytes(precision, backend) <= size_of(from);
}

std::uint64_t round_elements(ElementType from, Precision precision, Backend backend, const void* in,
                             std::uint64_t count, void* out) {
  if (!takes(precision, from))
    throw std::logic_error("a panel of integers can only be made from its own type");
  return with_element_type(from, [&](auto tag) {
    return round_from(traits_of(precision).panel, backend,
                      static_cast<const typename decltype(tag)::type*>(in), count, out);
  });
}

}  // namespace shardstream::gemm
