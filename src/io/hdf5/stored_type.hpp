// The mapping from types in HDF5 files to stored types and element types, and HDF5's conversion of
// foreign formats, which rejects values that do not fit. Also checks of layouts: libhdf5
// opens some damaged layouts and crashes when it reads them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "io/description/description.hpp"
#include "io/hdf5/handles.hpp"

namespace shardstream::io {

/// The integer or floating-point type whose values have the same bytes as those of `stored`: the
/// base type of an enum, unsigned integers for a bit field, or a copy of `stored`. Not valid if
/// `stored` holds no numbers. Needs the lock.
hdf5::Type number_type(hid_t stored);

/// HDF5's handle of the type in memory, which the caller must not close. There is none for f16.
/// Needs the lock.
hid_t native_type(ElementType type);
hid_t native_type(StoredType type);

/// The form of the numbers of a type, as number_type() has them. Formats that HDF5 must convert
/// have the type that holds every value, or most values of wider types (f64, i64, u64). Nothing for
/// other types. Needs the lock.
std::optional<StoredForm> stored_form(hid_t stored);

/// The element type that holds every value of a type in a file; nothing if it has no stored_form().
/// Needs the lock.
std::optional<ElementType> natural_type(hid_t stored);

/// Whether an integer or floating-point type has at most 64 bytes that contain all its bits. HDF5
/// does not check this for a damaged type, and crashes. Needs the lock.
bool bits_fit(hid_t stored);

/// The name of a type in messages: "strings", "compound values", "u16", "f32 (big-endian)", "i8
/// (enum)".
std::string describe_type(hid_t stored);

/// Transfer properties for one conversion from `stored` to native `delivered`. An H5Dread with them
/// fails at the first value that does not fit; complaint() then describes the problem.
class CheckedConversion {
 public:
  /// Needs the lock.
  CheckedConversion(hid_t stored, StoredType delivered);
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

  StoredType delivered_;
  Format format_ = Format::other;
  std::optional<H5T_conv_except_t> misfit_;
  hdf5::Properties properties_;
};

/// The shape of the chunks of a data set. Throws UsageError with `name`, the name of the data set,
/// if HDF5 would never create such chunks. Needs the lock.
std::vector<std::uint64_t> chunk_of(const hdf5::Dataset& dataset, const std::string& name);

/// Throws UsageError unless a compact data set has the size of its elements, and a contiguous one
/// that was written has at least this size. Needs the lock.
void expect_stored_size(const hdf5::Dataset& dataset, H5D_layout_t layout, const std::string& name);

}  // namespace shardstream::io
