// How the types that HDF5 files hold map to the program's element types, and a conversion between
// them that refuses values which do not fit, where HDF5 by itself would clip them; and whether a
// layout can be: libhdf5 opens some damaged ones, and crashes when it reads them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "io/hdf5/handles.hpp"
#include "kernels/data/element.hpp"

namespace shardstream::io {

/// HDF5's handle of the type in memory; not to be closed. Needs the lock.
hid_t native_type(ElementType type);

/// The element type that holds every value of `stored` (f64 and i64 hold most of the values of
/// wider ones), or nothing when it is not an integer or floating-point type. Needs the lock.
std::optional<ElementType> natural_type(hid_t stored);

/// Whether an integer or floating-point type has at most 64 bytes, and all bits that it names lie
/// inside them. HDF5 does not check this of a damaged type, and crashes. Needs the lock.
bool bits_fit(hid_t stored);

/// What a type is called in messages: "strings", "compound values", "u16", "f32 (big-endian)".
std::string describe_type(hid_t stored);

/// The type that HDF5 is asked for when `stored` values are wanted as `wanted`: the same, but for
/// integers from floats. HDF5 1.10 converts those of foreign formats without telling whole numbers
/// from fractions, so they are had as floats and go through to_integers(). Needs the lock.
ElementType delivered_type(hid_t stored, ElementType wanted);

/// Transfer properties for one conversion from `stored` to what delivered_type() says. An H5Dread
/// with them fails at the first value that does not fit; complaint() says what is wrong with it.
class CheckedConversion {
 public:
  /// Needs the lock.
  CheckedConversion(hid_t stored, ElementType delivered);
  CheckedConversion(const CheckedConversion&) = delete;
  CheckedConversion& operator=(const CheckedConversion&) = delete;

  hid_t properties() const { return properties_.get(); }

  /// "a value is too large for u8", or nothing when all fitted so far.
  std::optional<std::string> complaint() const;

 private:
  /// Types that HDF5 converts by the compiler's own casts, where infinity is "too large".
  enum class Source { f64, f80, other };

  static H5T_conv_ret_t judge(H5T_conv_except_t what, hid_t, hid_t, void* value, void*, void* self);
  bool is_infinite(const void* value) const;

  ElementType delivered_;
  Source source_ = Source::other;
  std::optional<H5T_conv_except_t> misfit_;
  hdf5::Properties properties_;
};

/// Whether `stored` and `delivered` are integers of one size and differ in having a sign: swapping
/// bytes between them, HDF5 1.10 takes the bits as they are. What comes is to be given to
/// sign_change(). Needs the lock.
bool differs_in_sign(hid_t stored, ElementType delivered);

/// Whether `stored` differs from the type in memory of `delivered` in its byte order alone. Needs
/// the lock.
bool differs_in_byte_order(hid_t stored, ElementType delivered);

/// Reverses the bytes of each of `count` elements of `element` bytes.
void reverse_bytes(std::byte* data, std::uint64_t count, std::uint64_t element);

/// Which of `count` integers, which were read from the other signedness, changed its sign by that:
/// "element 7 is too large for i64".
std::optional<std::string> sign_change(ElementType type, const std::byte* values,
                                       std::uint64_t first, std::uint64_t count);

/// Converts `count` floats of type `from` (f32, f64) to integers of type `to`, and returns what is
/// wrong with the first value that is not one of them: "element 7 is 0.5, which i32 cannot hold".
/// `first` is the index of the first element.
std::optional<std::string> to_integers(ElementType from, const std::byte* in, ElementType to,
                                       std::byte* out, std::uint64_t first, std::uint64_t count);

/// The shape of a chunked data set's chunks. Throws UsageError, naming the data set as `name`, if
/// HDF5 would never have made such chunks. Needs the lock.
std::vector<std::uint64_t> chunk_of(const hdf5::Dataset& dataset, const std::string& name);

/// Throws UsageError unless the bytes of a compact data set are those of its elements. Needs the
/// lock.
void expect_compact_size(const hdf5::Dataset& dataset, const std::string& name);

}  // namespace shardstream::io
