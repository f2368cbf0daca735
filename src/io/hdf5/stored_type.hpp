// The mapping from types in HDF5 files to the program's element types, and a conversion between
// them that rejects values that do not fit, which HDF5 would clip. Also checks of layouts: libhdf5
// opens some damaged layouts and crashes when it reads them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "io/hdf5/handles.hpp"
#include "kernels/data/element.hpp"

namespace shardstream::io {

/// HDF5's handle of the type in memory, which the caller must not close. Needs the lock.
hid_t native_type(ElementType type);

/// The element type that can hold every value of `stored`, or most values of wider types (f64 and
/// i64). Nothing if it is not an integer or floating-point type. Needs the lock.
std::optional<ElementType> natural_type(hid_t stored);

/// Whether an integer or floating-point type has at most 64 bytes that contain all its bits. HDF5
/// does not check this for a damaged type, and crashes. Needs the lock.
bool bits_fit(hid_t stored);

/// The name of a type in messages: "strings", "compound values", "u16", "f32 (big-endian)".
std::string describe_type(hid_t stored);

/// The type to request from HDF5 if `stored` values are wanted as `wanted`. It is `wanted` except
/// for integers from floats: HDF5 1.10 converts floats of foreign formats without distinguishing
/// whole numbers from fractions, so they are read as floats and converted by to_integers(). Needs
/// the lock.
ElementType delivered_type(hid_t stored, ElementType wanted);

/// Transfer properties for one conversion from `stored` to delivered_type(). An H5Dread with them
/// fails at the first value that does not fit; complaint() then describes the problem.
class CheckedConversion {
 public:
  /// Needs the lock.
  CheckedConversion(hid_t stored, ElementType delivered);
  CheckedConversion(const CheckedConversion&) = delete;
  CheckedConversion& operator=(const CheckedConversion&) = delete;

  hid_t properties() const { return properties_.get(); }

  /// "a value is too large for u8", or nothing if all values so far fit.
  std::optional<std::string> complaint() const;

 private:
  /// Types that HDF5 converts with the compiler's casts, which treat infinity as "too large".
  enum class Format { f64, f80, other };

  static H5T_conv_ret_t judge(H5T_conv_except_t what, hid_t, hid_t, void* value, void*, void* self);
  bool is_infinite(const void* value) const;

  ElementType delivered_;
  Format format_ = Format::other;
  std::optional<H5T_conv_except_t> misfit_;
  hdf5::Properties properties_;
};

/// Whether `stored` and `delivered` are integers of the same size with different signedness. When
/// HDF5 1.10 swaps their bytes, it does not check the sign: pass the values to sign_change(). Needs
/// the lock.
bool differs_in_sign(hid_t stored, ElementType delivered);

/// Whether `stored` differs from the type in memory of `delivered` only in its byte order. Needs
/// the lock.
bool differs_in_byte_order(hid_t stored, ElementType delivered);

/// Reverses the bytes of each of `count` elements of `element` bytes.
void reverse_bytes(std::byte* data, std::uint64_t count, std::uint64_t element);

/// The first of `count` integers whose sign has changed because they were read from the other
/// signedness: "element 7 is too large for i64". Nothing if there is none.
std::optional<std::string> sign_change(ElementType type, const std::byte* values,
                                       std::uint64_t first, std::uint64_t count);

/// Converts `count` floats of type `from` (f32, f64) to integers of type `to`. Returns the problem
/// with the first value that cannot be converted: "element 7 is 0.5, which i32 cannot hold".
/// `first` is the index of the first element.
std::optional<std::string> to_integers(ElementType from, const std::byte* in, ElementType to,
                                       std::byte* out, std::uint64_t first, std::uint64_t count);

/// The shape of the chunks of a data set. Throws UsageError with `name`, the name of the data set,
/// if HDF5 would never create such chunks. Needs the lock.
std::vector<std::uint64_t> chunk_of(const hdf5::Dataset& dataset, const std::string& name);

/// Throws UsageError unless the size of a compact data set equals the size of its elements. Needs
/// the lock.
void expect_compact_size(const hdf5::Dataset& dataset, const std::string& name);

}  // namespace shardstream::io
