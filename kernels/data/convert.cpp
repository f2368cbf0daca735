#include "kernels/data/convert.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "kernels/vector_clones.hpp"
#include "types/convert_element.hpp"

namespace shardstream {
namespace {

/// Elements that are converted together. Their steps are separate loops, which compilers vectorise;
/// their buffers stay in the first-level cache.
constexpr std::size_t block = 1024;

/// Buffers of one block.
struct Workspace {
  using Numbers = std::array<std::byte, block * sizeof(std::uint64_t)>;

  alignas(64) Numbers stored;
  alignas(64) Numbers unpacked;
  alignas(64) std::array<std::uint8_t, block> missing;
};

template <class S>
SHARDSTREAM_VECTOR_CLONES void reverse(std::size_t count, S* values) {
  using Word = conversion::Word<S>;
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = std::bit_cast<S>(conversion::reversed(std::bit_cast<Word>(values[i])));
  }
}

SHARDSTREAM_VECTOR_CLONES void widen(const Half* halves, std::size_t count, float* numbers) {
  for (std::size_t i = 0; i < count; ++i) numbers[i] = conversion::number(halves[i]);
}

/// Writes the numbers of a block.
template <class S>
void load(const std::byte* stored, bool is_reversed, std::size_t count,
          conversion::Number<S>* numbers) {
  if constexpr (std::is_same_v<S, Half>) {
    std::array<Half, block> halves;
    std::memcpy(halves.data(), stored, count * sizeof(Half));
    if (is_reversed) reverse(count, halves.data());
    widen(halves.data(), count, numbers);
  } else {
    std::memcpy(numbers, stored, count * sizeof(S));
    if (is_reversed) reverse(count, numbers);
  }
}

/// Sets `missing` to 1 for missing values and to 0 for others, and returns their number.
template <class S>
SHARDSTREAM_VECTOR_CLONES std::size_t mark(const conversion::Number<S>* numbers, std::size_t count,
                                           const MissingValues& rules, std::uint8_t* missing) {
  std::memset(missing, 0, count);
  for (unsigned v = 0; v < rules.count; ++v) {
    const auto value = conversion::number_of_bits<S>(rules.value[v]);
    for (std::size_t i = 0; i < count; ++i) missing[i] |= numbers[i] == value;
  }
  if (rules.has_min) {
    const auto min = conversion::number_of_bits<S>(rules.min);
    for (std::size_t i = 0; i < count; ++i) missing[i] |= numbers[i] < min;
  }
  if (rules.has_max) {
    const auto max = conversion::number_of_bits<S>(rules.max);
    for (std::size_t i = 0; i < count; ++i) missing[i] |= numbers[i] > max;
  }
  if (rules.nan) {
    for (std::size_t i = 0; i < count; ++i) missing[i] |= numbers[i] != numbers[i];
  }
  std::size_t sum = 0;
  for (std::size_t i = 0; i < count; ++i) sum += missing[i];
  return sum;
}

/// Whether `x` has an element of type T. Without branches, which compilers do not vectorise.
template <class T, class N>
bool fits(N x) {
  if constexpr (conversion::always_fits<N, T>()) {
    return true;
  } else if constexpr (std::floating_point<T>) {
    return std::isinf(x) | !std::isinf(static_cast<T>(x));
  } else if constexpr (std::integral<N>) {
    return std::in_range<T>(x);
  } else {
    // Both bounds are powers of two or 0, so they are exact in N, unlike T's maximum.
    constexpr N min = static_cast<N>(std::numeric_limits<T>::min());
    constexpr N beyond = static_cast<N>(std::numeric_limits<T>::max() / 2 + 1) * 2;
    return (x >= min) & (x < beyond) & (std::trunc(x) == x);
  }
}

/// The first number that is not missing and does not fit T, or `count`.
template <class T, class N>
SHARDSTREAM_VECTOR_CLONES std::size_t first_misfit(const N* numbers, std::size_t count,
                                                   const std::uint8_t* missing) {
  std::size_t misfits = 0;  // counted first, which compilers vectorise
  for (std::size_t i = 0; i < count; ++i) misfits += (missing[i] == 0) & !fits<T>(numbers[i]);
  if (misfits == 0) return count;
  std::size_t i = 0;
  while (missing[i] != 0 || fits<T>(numbers[i])) ++i;
  return i;
}

template <class N, class T>
SHARDSTREAM_VECTOR_CLONES void cast(const N* from, std::size_t count, T* to) {
  for (std::size_t i = 0; i < count; ++i) to[i] = static_cast<T>(from[i]);
}

template <class R>
SHARDSTREAM_VECTOR_CLONES void multiply(R factor, std::size_t count, R* numbers) {
  for (std::size_t i = 0; i < count; ++i) numbers[i] *= factor;
}

template <class R>
SHARDSTREAM_VECTOR_CLONES void add(R offset, std::size_t count, R* numbers) {
  for (std::size_t i = 0; i < count; ++i) numbers[i] += offset;
}

/// Unpacks with results of type R.
template <class N, class R>
void unpack(const N* from, std::size_t count, const Unpacking& how, R* to) {
  if (how.multiplies && how.product_is_f32 && std::is_same_v<R, double>) {
    std::array<float, block> products;
    cast(from, count, products.data());
    multiply(static_cast<float>(how.scale), count, products.data());
    cast(products.data(), count, to);
  } else {
    cast(from, count, to);
    if (how.multiplies) multiply(static_cast<R>(how.scale), count, to);
  }
  if (how.adds) add(static_cast<R>(how.offset), count, to);
}

template <class T>
SHARDSTREAM_VECTOR_CLONES void replace(const std::uint8_t* missing, std::size_t count, T element,
                                       T* elements) {
  for (std::size_t i = 0; i < count; ++i) elements[i] = missing[i] != 0 ? element : elements[i];
}

/// Converts a block from numbers of type N.
template <class T, class N>
Converted finish(const Conversion& how, const N* numbers, std::size_t count, const Workspace& room,
                 std::size_t missing, std::byte* out) {
  Converted result{.missing = missing};
  if constexpr (!conversion::always_fits<N, T>()) {
    const std::size_t misfit = first_misfit<T>(numbers, count, room.missing.data());
    if (misfit < count) {
      result.misfit = misfit;
      return result;
    }
  }
  std::array<T, block> elements;
  cast(numbers, count, elements.data());
  if (missing > 0) {
    replace(room.missing.data(), count, conversion::missing_element<T>(how), elements.data());
  }
  std::memcpy(out, elements.data(), count * sizeof(T));
  return result;
}

/// Copies values without the missing ones, and returns the number of these. Conditions that do not
/// apply hold for none. Without selections, which compilers do not vectorise here.
template <std::floating_point T>
SHARDSTREAM_VECTOR_CLONES std::size_t replace_missing(const MissingValues& rules, T element,
                                                      std::size_t count, const T* from, T* to) {
  using Mask = conversion::Word<T>;
  constexpr T infinity = std::numeric_limits<T>::infinity();
  const T min = rules.has_min ? conversion::number_of_bits<T>(rules.min) : -infinity;
  const T max = rules.has_max ? conversion::number_of_bits<T>(rules.max) : infinity;
  const T value = conversion::number_of_bits<T>(rules.value[0]);
  const Mask has_value = rules.count > 0 ? ~Mask{0} : 0, has_nan = rules.nan ? ~Mask{0} : 0;
  const Mask replacement = std::bit_cast<Mask>(element);
  Mask sum = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const T x = from[i];
    const Mask equal = -static_cast<Mask>(x == value) & has_value;
    const Mask nan = -static_cast<Mask>(x != x) & has_nan;
    const Mask missing = equal | nan | -static_cast<Mask>(x < min) | -static_cast<Mask>(x > max);
    to[i] = std::bit_cast<T>((std::bit_cast<Mask>(x) & ~missing) | (replacement & missing));
    sum -= missing;
  }
  return sum;
}

/// Whether a conversion only replaces missing floats, by one comparison for each condition, and
/// both pointers are aligned.
template <class T>
bool only_replaces(const Conversion& how, const std::byte* stored, const std::byte* out) {
  const auto is_aligned = [](const std::byte* data) {
    return reinterpret_cast<std::uintptr_t>(data) % alignof(T) == 0;
  };
  return !how.is_reversed && !how.unpacking.any() && how.missing.count <= 1 && is_aligned(stored) &&
         is_aligned(out);
}

template <class S, class T>
Converted convert_block(const Conversion& how, const std::byte* stored, std::size_t count,
                        Workspace& room, std::byte* out) {
  using N = conversion::Number<S>;
  if constexpr (std::is_same_v<S, T> && std::floating_point<T>) {
    if (only_replaces<T>(how, stored, out)) {
      return {.missing =
                  replace_missing(how.missing, conversion::missing_element<T>(how), count,
                                  reinterpret_cast<const T*>(stored), reinterpret_cast<T*>(out))};
    }
  }
  auto* const numbers = reinterpret_cast<N*>(room.stored.data());
  load<S>(stored, how.is_reversed, count, numbers);
  std::size_t missing = 0;
  if (how.missing.any()) {
    missing = mark<S>(numbers, count, how.missing, room.missing.data());
  } else {
    std::memset(room.missing.data(), 0, count);
  }
  if (!how.unpacking.any()) return finish<T>(how, numbers, count, room, missing, out);
  const auto unpacked_to = [&](auto* to) {
    unpack(numbers, count, how.unpacking, to);
    return finish<T>(how, to, count, room, missing, out);
  };
  auto* const to = room.unpacked.data();
  return how.unpacking.gives_f32() ? unpacked_to(reinterpret_cast<float*>(to))
                                   : unpacked_to(reinterpret_cast<double*>(to));
}

/// A part converts a contiguous share of the elements.
void convert_host(const ConvertArgs& args, unsigned part, unsigned parts) {
  const Rows mine = rows_of(args.count, part, parts);
  const std::size_t from = size_of(args.conversion.from), to = size_of(args.conversion.to);
  const Converted result = convert(args.conversion, args.stored + mine.begin * from,
                                   mine.end - mine.begin, args.elements + mine.begin * to);
  std::atomic_ref(*args.missing).fetch_add(result.missing, std::memory_order_relaxed);
}

}  // namespace

bool always_fits(const Conversion& conversion) {
  return with_element_type(conversion.to, [&](auto to) {
    using T = typename decltype(to)::type;
    const Unpacking& how = conversion.unpacking;
    if (how.any()) {
      return std::is_same_v<T, double> || (std::is_same_v<T, float> && how.gives_f32());
    }
    return with_stored_type(conversion.from, [](auto from) {
      return conversion::always_fits<typename decltype(from)::type, T>();
    });
  });
}

Converted convert(const Conversion& conversion, const std::byte* stored, std::uint64_t count,
                  std::byte* elements) {
  Workspace room;
  return with_stored_type(conversion.from, [&](auto from) {
    using S = typename decltype(from)::type;
    return with_element_type(conversion.to, [&](auto to) {
      using T = typename decltype(to)::type;
      Converted all;
      for (std::uint64_t first = 0; first < count; first += block) {
        const auto some = static_cast<std::size_t>(std::min<std::uint64_t>(block, count - first));
        const Converted one = convert_block<S, T>(conversion, stored + first * sizeof(S), some,
                                                  room, elements + first * sizeof(T));
        all.missing += one.missing;
        if (one.misfit) {
          all.misfit = first + *one.misfit;
          return all;
        }
      }
      return all;
    });
  });
}

Kernel<ConvertArgs> convert_kernel() {
  return {"convert", convert_host, with_cuda<cuda::convert>()};
}

}  // namespace shardstream
