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

/// Whether the type has the bits of IEEE binary16, in any byte order.
bool is_half(hid_t stored) {
  std::size_t sign = 0, exponent = 0, exponent_size = 0, mantissa = 0, mantissa_size = 0;
  return H5Tget_size(stored) == 2 && H5Tget_precision(stored) == 16 &&
         H5Tget_fields(stored, &sign, &exponent, &exponent_size, &mantissa, &mantissa_size) >= 0 &&
         sign == 15 && exponent == 10 && exponent_size == 5 && mantissa == 0 &&
         mantissa_size == 10 && H5Tget_ebias(stored) == 15 &&
         H5Tget_norm(stored) == H5T_NORM_IMPLIED;
}

bool is_little(hid_t stored) {
  return H5Tget_order(stored) == H5T_ORDER_LE;
}

StoredForm float_form(hid_t stored) {
  const bool reversed = !is_little(stored);
  if (is_half(stored)) return {StoredType::f16, reversed};
  for (const auto& [same, type] :
       {std::pair{H5T_IEEE_F32LE, StoredType::f32}, std::pair{H5T_IEEE_F32BE, StoredType::f32},
        std::pair{H5T_IEEE_F64LE, StoredType::f64}, std::pair{H5T_IEEE_F64BE, StoredType::f64}}) {
    if (H5Tequal(stored, same) > 0) return {type, reversed};
  }
  const bool is_short = H5Tget_size(stored) <= sizeof(float);
  return {.type = is_short ? StoredType::f32 : StoredType::f64, .by_library = true};
}

/// The integer type of `bits` bits or, for more than 64, of 64.
StoredType integer_type(std::size_t bits, bool has_sign) {
  if (bits <= 8) return has_sign ? StoredType::i8 : StoredType::u8;
  if (bits <= 16) return has_sign ? StoredType::i16 : StoredType::u16;
  if (bits <= 32) return has_sign ? StoredType::i32 : StoredType::u32;
  return has_sign ? StoredType::i64 : StoredType::u64;
}

/// All bits of the usual ones count, and their size is that of a type of C.
StoredForm integer_form(hid_t stored, bool has_sign) {
  const std::size_t bits = H5Tget_precision(stored);
  const StoredType type = integer_type(bits, has_sign);
  const bool is_usual = bits == 8 * size_of(type) && H5Tget_size(stored) == size_of(type) &&
                        H5Tget_offset(stored) == 0;
  if (!is_usual) return {.type = type, .by_library = true};
  return {type, size_of(type) > 1 && !is_little(stored)};
}

[[noreturn]] void fail_as_damaged(const std::string& name, const std::string& what) {
  throw UsageError(fmt::format("{} is damaged ({}): copy or write it again", name, what));
}

std::uint64_t element_bytes(const hdf5::Dataset& dataset, const std::string& name) {
  const hdf5::Type type(H5Dget_type(dataset.get()), "cannot get the type of " + name);
  return H5Tget_size(type.get());
}

/// Not valid if HDF5 does not accept the properties of a damaged bit field.
hdf5::Type unsigned_integers(hid_t bit_field) {
  hdf5::Type type(H5Tcopy(H5T_STD_U8LE), "cannot copy a type");
  const std::size_t offset = static_cast<std::size_t>(std::max(H5Tget_offset(bit_field), 0));
  const bool ok = H5Tset_size(type.get(), H5Tget_size(bit_field)) >= 0 &&
                  H5Tset_precision(type.get(), H5Tget_precision(bit_field)) >= 0 &&
                  H5Tset_offset(type.get(), offset) >= 0 &&
                  H5Tset_order(type.get(), H5Tget_order(bit_field)) >= 0 &&
                  H5Tget_size(type.get()) == H5Tget_size(bit_field);
  return ok ? std::move(type) : hdf5::Type();
}

}  // namespace

hdf5::Type number_type(hid_t stored) {
  switch (H5Tget_class(stored)) {
    case H5T_INTEGER:
    case H5T_FLOAT:
      return hdf5::Type(H5Tcopy(stored), "cannot copy a type");
    case H5T_BITFIELD:
      return unsigned_integers(stored);
    case H5T_ENUM: {
      hdf5::Type base(H5Tget_super(stored), "cannot get the type of an enum");
      return H5Tget_class(base.get()) == H5T_INTEGER ? std::move(base) : hdf5::Type();
    }
    default:
      return {};
  }
}

hid_t native_type(ElementType type) {
  const hid_t types[] = {H5T_NATIVE_FLOAT, H5T_NATIVE_DOUBLE, H5T_NATIVE_INT32, H5T_NATIVE_INT64,
                         H5T_NATIVE_INT8,  H5T_NATIVE_UINT8,  H5T_NATIVE_UINT64};
  return types[static_cast<std::size_t>(type)];  // in the order of ElementType
}

hid_t native_type(StoredType type) {
  const hid_t types[] = {H5T_NATIVE_INT8,  H5T_NATIVE_UINT8,  H5T_NATIVE_INT16, H5T_NATIVE_UINT16,
                         H5T_NATIVE_INT32, H5T_NATIVE_UINT32, H5T_NATIVE_INT64, H5T_NATIVE_UINT64,
                         H5T_NATIVE_FLOAT, H5T_NATIVE_DOUBLE};
  expect(type != StoredType::f16, "HDF5 has no native type for f16");
  return types[static_cast<std::size_t>(type)];  // in the order of StoredType
}

std::optional<StoredForm> stored_form(hid_t stored) {
  const hdf5::Type number = number_type(stored);
  if (!number.valid()) return std::nullopt;
  if (H5Tget_class(number.get()) == H5T_FLOAT) return float_form(number.get());
  return integer_form(number.get(), H5Tget_sign(number.get()) == H5T_SGN_2);
}

std::optional<ElementType> natural_type(hid_t stored) {
  const auto form = stored_form(stored);
  return form ? std::optional(natural_type(form->type)) : std::nullopt;
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
  const hdf5::Type number = number_type(stored);
  if (!number.valid()) {
    static const std::map<H5T_class_t, const char*> names = {{H5T_STRING, "strings"},
                                                             {H5T_COMPOUND, "compound values"},
                                                             {H5T_REFERENCE, "references"},
                                                             {H5T_VLEN, "variable-length lists"},
                                                             {H5T_OPAQUE, "opaque values"},
                                                             {H5T_ARRAY, "arrays"},
                                                             {H5T_TIME, "times"}};
    const auto name = names.find(kind);
    return name == names.end() ? "values of an unknown class" : name->second;
  }
  const char letter = kind == H5T_FLOAT ? 'f' : H5Tget_sign(number.get()) == H5T_SGN_2 ? 'i' : 'u';
  std::vector<std::string_view> remarks;
  if (H5Tget_order(number.get()) == H5T_ORDER_BE) remarks.push_back("big-endian");
  if (kind == H5T_ENUM) remarks.push_back("enum");
  if (kind == H5T_BITFIELD) remarks.push_back("bit field");
  return fmt::format("{}{}{}", letter, H5Tget_precision(number.get()),
                     remarks.empty() ? "" : fmt::format(" ({})", join(remarks, ", ")));
}

CheckedConversion::CheckedConversion(hid_t stored, StoredType delivered)
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
                     *misfit_ == H5T_CONV_EXCEPT_RANGE_HI ? "large" : "small", word_of(delivered_));
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

void expect_stored_size(const hdf5::Dataset& dataset, H5D_layout_t layout,
                        const std::string& name) {
  const hdf5::Space space(H5Dget_space(dataset.get()), "cannot get the shape of " + name);
  const auto elements = static_cast<std::uint64_t>(
      check(H5Sget_simple_extent_npoints(space.get()), "cannot get the shape of " + name));
  const std::uint64_t wanted = saturating_product(elements, element_bytes(dataset, name));
  const std::uint64_t stored = H5Dget_storage_size(dataset.get());
  const bool is_unwritten = layout != H5D_COMPACT && stored == 0;
  const bool is_large_enough = layout == H5D_COMPACT ? stored == wanted : stored >= wanted;
  if (is_unwritten || is_large_enough) return;
  fail_as_damaged(name, fmt::format("it has {} bytes for elements of {}", stored, wanted));
}

}  // namespace shardstream::io
