#include "io/hdf5/stored_type.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <type_traits>

#include "core/error.hpp"
#include "core/shard.hpp"
#include "core/text.hpp"

namespace shardstream::io {
namespace {

using hdf5::check;

template <class T>
bool infinite(const void* value) {
  T number;
  std::memcpy(&number, value, sizeof number);
  return std::isinf(number);
}

bool is_integer(ElementType type) {
  return type != ElementType::f32 && type != ElementType::f64;
}

/// Converts until the first value that `To` cannot hold. Returns the index of that value, or
/// `count`.
template <class From, class To>
std::uint64_t convert(const From* in, To* out, std::uint64_t count) {
  // Both bounds are powers of two or 0, so they are exact in From, unlike To's maximum.
  constexpr From min = static_cast<From>(std::numeric_limits<To>::min());
  constexpr From beyond = static_cast<From>(std::numeric_limits<To>::max() / 2 + 1) * 2;
  for (std::uint64_t i = 0; i < count; ++i) {
    if (!(in[i] >= min && in[i] < beyond)) return i;  // NaN as well
    out[i] = static_cast<To>(in[i]);
    if (static_cast<From>(out[i]) != in[i]) return i;
  }
  return count;
}

[[noreturn]] void fail_as_damaged(const std::string& name, const std::string& what) {
  throw UsageError(fmt::format("{} is damaged ({}): copy or write it again", name, what));
}

std::uint64_t element_bytes(const hdf5::Dataset& dataset, const std::string& name) {
  const hdf5::Type type(H5Dget_type(dataset.get()), "cannot get the type of " + name);
  return H5Tget_size(type.get());
}

template <class Word>
Word reversed(Word word) {
  if constexpr (sizeof(Word) == 2) return __builtin_bswap16(word);
  if constexpr (sizeof(Word) == 4) return __builtin_bswap32(word);
  if constexpr (sizeof(Word) == 8) return __builtin_bswap64(word);
}

template <class Word>
void reverse_words(std::byte* data, std::uint64_t count) {
  for (std::uint64_t i = 0; i < count; ++i) {
    Word word;
    std::memcpy(&word, data + i * sizeof(Word), sizeof(Word));
    word = reversed(word);
    std::memcpy(data + i * sizeof(Word), &word, sizeof(Word));
  }
}

}  // namespace

hid_t native_type(ElementType type) {
  const hid_t types[] = {H5T_NATIVE_FLOAT, H5T_NATIVE_DOUBLE, H5T_NATIVE_INT32,
                         H5T_NATIVE_INT64, H5T_NATIVE_INT8,   H5T_NATIVE_UINT8};
  return types[static_cast<std::size_t>(type)];  // in the order of ElementType
}

std::optional<ElementType> natural_type(hid_t stored) {
  const H5T_class_t kind = H5Tget_class(stored);
  if (kind == H5T_FLOAT) {
    return H5Tget_size(stored) <= sizeof(float) ? ElementType::f32 : ElementType::f64;
  }
  if (kind != H5T_INTEGER) return std::nullopt;
  const std::size_t bits = H5Tget_precision(stored);
  const bool has_sign = H5Tget_sign(stored) == H5T_SGN_2;
  if (bits <= 8) return has_sign ? ElementType::i8 : ElementType::u8;
  return bits <= (has_sign ? 32u : 31u) ? ElementType::i32 : ElementType::i64;
}

bool bits_fit(hid_t stored) {
  const std::size_t size = 8 * H5Tget_size(stored), precision = H5Tget_precision(stored);
  const int offset = H5Tget_offset(stored);
  const auto lies_in = [](std::size_t begin, std::size_t length, std::size_t end) {
    return length > 0 && length <= end && begin <= end - length;
  };
  constexpr std::size_t max_size = 8 * 64;  // bits; every format has fewer
  if (size > max_size || offset < 0 || !lies_in(static_cast<std::size_t>(offset), precision, size))
    return false;
  if (H5Tget_class(stored) != H5T_FLOAT) return true;
  std::size_t sign = 0, exponent = 0, exponent_size = 0, mantissa = 0, mantissa_size = 0;
  return H5Tget_fields(stored, &sign, &exponent, &exponent_size, &mantissa, &mantissa_size) >= 0 &&
         lies_in(sign, 1, size) && lies_in(exponent, exponent_size, size) &&
         lies_in(mantissa, mantissa_size, size);
}

std::string describe_type(hid_t stored) {
  const H5T_class_t kind = H5Tget_class(stored);
  if (kind != H5T_INTEGER && kind != H5T_FLOAT) {
    static const std::map<H5T_class_t, const char*> names = {{H5T_STRING, "strings"},
                                                             {H5T_COMPOUND, "compound values"},
                                                             {H5T_REFERENCE, "references"},
                                                             {H5T_VLEN, "variable-length lists"},
                                                             {H5T_OPAQUE, "opaque values"},
                                                             {H5T_ENUM, "enum values"},
                                                             {H5T_ARRAY, "arrays"},
                                                             {H5T_BITFIELD, "bit fields"},
                                                             {H5T_TIME, "times"}};
    const auto name = names.find(kind);
    return name == names.end() ? "values of an unknown class" : name->second;
  }
  const char letter = kind == H5T_FLOAT ? 'f' : H5Tget_sign(stored) == H5T_SGN_2 ? 'i' : 'u';
  return fmt::format("{}{}{}", letter, H5Tget_precision(stored),
                     H5Tget_order(stored) == H5T_ORDER_BE ? " (big-endian)" : "");
}

ElementType delivered_type(hid_t stored, ElementType wanted) {
  const bool to_integer = is_integer(wanted) && H5Tget_class(stored) == H5T_FLOAT;
  return to_integer ? natural_type(stored).value() : wanted;
}

CheckedConversion::CheckedConversion(hid_t stored, ElementType delivered)
    : delivered_(delivered),
      properties_(H5Pcreate(H5P_DATASET_XFER), "cannot make data transfer properties") {
  if (H5Tequal(stored, H5T_NATIVE_DOUBLE) > 0) format_ = Format::f64;
  if (H5Tequal(stored, H5T_NATIVE_LDOUBLE) > 0) format_ = Format::f80;
  check(H5Pset_type_conv_cb(properties_.get(), judge, this),
        "cannot watch over the conversion of values");
}

bool CheckedConversion::is_infinite(const void* value) const {
  if (format_ == Format::f64) return infinite<double>(value);
  return format_ == Format::f80 && infinite<long double>(value);
}

/// HDF5 calls this function for each value that its conversion would change. Only values outside
/// the range are rejected. Otherwise, HDF5's conversion is right: it rounds, and keeps infinities
/// and NaN.
H5T_conv_ret_t CheckedConversion::judge(H5T_conv_except_t what, hid_t, hid_t, void* value, void*,
                                        void* self) {
  auto& conversion = *static_cast<CheckedConversion*>(self);
  const bool out_of_range = what == H5T_CONV_EXCEPT_RANGE_HI || what == H5T_CONV_EXCEPT_RANGE_LOW;
  if (!out_of_range || conversion.is_infinite(value)) return H5T_CONV_UNHANDLED;
  conversion.misfit_ = what;
  return H5T_CONV_ABORT;
}

std::optional<std::string> CheckedConversion::complaint() const {
  if (!misfit_) return std::nullopt;
  return fmt::format("a value is too {} for {}",
                     *misfit_ == H5T_CONV_EXCEPT_RANGE_HI ? "large" : "small", name_of(delivered_));
}

bool differs_in_sign(hid_t stored, ElementType delivered) {
  const H5T_sign_t sign = delivered == ElementType::u8 ? H5T_SGN_NONE : H5T_SGN_2;
  return is_integer(delivered) && H5Tget_class(stored) == H5T_INTEGER &&
         H5Tget_size(stored) == size_of(delivered) && H5Tget_sign(stored) != sign;
}

bool differs_in_byte_order(hid_t stored, ElementType delivered) {
  const hid_t native = native_type(delivered);
  if (H5Tequal(stored, native) > 0) return false;
  const hdf5::Type turned(H5Tcopy(stored), "cannot copy a type");
  return H5Tset_order(turned.get(), H5Tget_order(native)) >= 0 &&
         H5Tequal(turned.get(), native) > 0;
}

void reverse_bytes(std::byte* data, std::uint64_t count, std::uint64_t element) {
  switch (element) {
    case 1:
      return;
    case 2:
      return reverse_words<std::uint16_t>(data, count);
    case 4:
      return reverse_words<std::uint32_t>(data, count);
    case 8:
      return reverse_words<std::uint64_t>(data, count);
    default:
      for (std::uint64_t i = 0; i < count; ++i) {
        std::reverse(data + i * element, data + (i + 1) * element);
      }
  }
}

std::optional<std::string> sign_change(ElementType type, const std::byte* values,
                                       std::uint64_t first, std::uint64_t count) {
  const std::size_t size = size_of(type);
  for (std::uint64_t i = 0; i < count; ++i) {
    const bool top_bit = (values[(i + 1) * size - 1] & std::byte{0x80}) != std::byte{0};
    if (!top_bit) continue;
    return fmt::format("element {} is too {} for {}", first + i,
                       type == ElementType::u8 ? "small" : "large", name_of(type));
  }
  return std::nullopt;
}

std::optional<std::string> to_integers(ElementType from, const std::byte* in, ElementType to,
                                       std::byte* out, std::uint64_t first, std::uint64_t count) {
  return with_element_type(from, [&](auto source) -> std::optional<std::string> {
    using From = typename decltype(source)::type;
    return with_element_type(to, [&](auto target) -> std::optional<std::string> {
      using To = typename decltype(target)::type;
      if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
        const auto bad =
            convert(reinterpret_cast<const From*>(in), reinterpret_cast<To*>(out), count);
        if (bad == count) return std::nullopt;
        return fmt::format("element {} is {}, which {} cannot hold", first + bad,
                           reinterpret_cast<const From*>(in)[bad], name_of(to));
      } else {
        throw ContractError("to_integers() converts floats to integers");
      }
    });
  });
}

std::vector<std::uint64_t> chunk_of(const hdf5::Dataset& dataset, const std::string& name) {
  const std::string what = "cannot get the chunk shape of " + name;
  const hdf5::Space space(H5Dget_space(dataset.get()), what);
  const hdf5::Properties creation(H5Dget_create_plist(dataset.get()), what);
  const auto rank = static_cast<std::size_t>(check(H5Sget_simple_extent_ndims(space.get()), what));
  std::vector<hsize_t> max(rank), extents(H5S_MAX_RANK);
  check(H5Sget_simple_extent_dims(space.get(), nullptr, max.data()), what);
  const int chunk_rank = check(H5Pget_chunk(creation.get(), H5S_MAX_RANK, extents.data()), what);
  if (static_cast<std::size_t>(chunk_rank) != rank) {
    fail_as_damaged(name, fmt::format("it has {} dimensions, its chunks {}", rank, chunk_rank));
  }
  const std::vector<std::uint64_t> chunk(extents.begin(), extents.begin() + chunk_rank);
  std::uint64_t bytes = element_bytes(dataset, name);
  for (std::size_t d = 0; d < rank; ++d) {
    if (chunk[d] == 0 || (max[d] != H5S_UNLIMITED && chunk[d] > max[d])) {
      fail_as_damaged(name, fmt::format("its chunks are {}, beyond its maximum extents or empty",
                                        join(chunk, "x")));
    }
    bytes = saturating_product(bytes, chunk[d]);
  }
  constexpr std::uint64_t limit = std::uint64_t{1} << 32;
  if (bytes >= limit) {
    fail_as_damaged(name,
                    fmt::format("its chunks of {} have {} bytes, but HDF5 allows less than 4 GiB",
                                join(chunk, "x"), bytes));
  }
  return chunk;
}

void expect_compact_size(const hdf5::Dataset& dataset, const std::string& name) {
  const hdf5::Space space(H5Dget_space(dataset.get()), "cannot get the shape of " + name);
  const auto elements = static_cast<std::uint64_t>(
      check(H5Sget_simple_extent_npoints(space.get()), "cannot get the shape of " + name));
  const std::uint64_t wanted = saturating_product(elements, element_bytes(dataset, name));
  const std::uint64_t stored = H5Dget_storage_size(dataset.get());
  if (stored == wanted) return;
  fail_as_damaged(name,
                  fmt::format("it is compact and has {} bytes for elements of {}", stored, wanted));
}

}  // namespace shardstream::io
