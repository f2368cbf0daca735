// The lock around HDF5, owners of its handles, and checked calls whose errors contain HDF5's own
// reasons. Only src/io calls HDF5.
#pragma once

#include <hdf5.h>

#include <cstdint>
#include <mutex>
#include <optional>
#include <source_location>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "io/hdf5/crash.hpp"

namespace shardstream::io::hdf5 {

/// Must be held during every call of HDF5, which is not thread-safe as packaged. It is recursive,
/// since owners take it in their destructors. HDF5 does not print errors while it is held. A crash
/// of the thread that holds it is handled as crash.hpp describes.
class Lock {
 public:
  Lock();

 private:
  struct Silence {
    Silence();
  };

  std::lock_guard<std::recursive_mutex> guard_;
  Silence silence_;
  Inside inside_;  // after `silence_`, whose first call must be the first call of HDF5
};

/// The reasons of the last failed call, innermost first. The lock must be held since that call.
class Reasons {
 public:
  Reasons();

  /// The innermost reason: "inflate() failed".
  const std::string& innermost() const { return texts_.front(); }
  /// Whether any of the reasons contains `words`.
  bool mention(std::string_view words) const;
  /// The first reason that contains `words`, or the innermost.
  const std::string& about(std::string_view words) const;

 private:
  std::vector<std::string> texts_;  // never empty
};

/// Throws Error "WHAT: HDF5: REASON". Needs the lock.
[[noreturn]] void fail(std::string_view what,
                       std::source_location where = std::source_location::current());

/// Returns the value of a call, or throws Error if it is negative. `what` completes "cannot ...".
template <class Value>
Value check(Value value, std::string_view what,
            std::source_location where = std::source_location::current()) {
  if (value < 0) fail(what, where);
  return value;
}

/// An owner of a handle. The destructor ignores errors of closing. Code that writes must call
/// close() and check it.
template <herr_t (*Close)(hid_t)>
class Owner {
 public:
  Owner() = default;
  explicit Owner(hid_t id) : id_(id) {}
  /// Takes over the value of a call, or throws as check() does.
  Owner(hid_t id, std::string_view what,
        std::source_location where = std::source_location::current())
      : id_(check(id, what, where)) {}
  Owner(Owner&& other) noexcept : id_(std::exchange(other.id_, H5I_INVALID_HID)) {}
  Owner& operator=(Owner&& other) noexcept {
    std::swap(id_, other.id_);
    return *this;
  }
  ~Owner() { close(); }

  hid_t get() const { return id_; }
  bool valid() const { return id_ >= 0; }

  /// Negative if HDF5 could not close it, for a file also if it could not write it.
  herr_t close() {
    if (!valid()) return 0;
    Lock lock;
    return Close(std::exchange(id_, H5I_INVALID_HID));
  }

 private:
  hid_t id_ = H5I_INVALID_HID;
};

using File = Owner<H5Fclose>;
using Object = Owner<H5Oclose>;
using Group = Owner<H5Gclose>;
using Dataset = Owner<H5Dclose>;
using Space = Owner<H5Sclose>;
using Type = Owner<H5Tclose>;
using Attribute = Owner<H5Aclose>;
using Properties = Owner<H5Pclose>;

enum class FileLocking { off, on };

/// File access with the POSIX driver. With FileLocking::off, HDF5 does not lock the file, unless
/// the variable HDF5_USE_FILE_LOCKING requires it.
Properties posix_access(FileLocking locking);

/// These functions replace existing attributes. Strings are UTF-8 (as_utf8()) of variable length:
/// any length fits, and h5py returns a str.
void write_attribute(hid_t object, const std::string& name, const std::string& value);
void write_attribute(hid_t object, const std::string& name, double value);
void write_attribute(hid_t object, const std::string& name, std::int64_t value);
void write_attribute(hid_t object, const std::string& name, const std::vector<std::int64_t>& value);
/// A number that is stored as `type`.
void write_attribute(hid_t object, const std::string& name, double value, const Type& type);
void write_attribute(hid_t object, const std::string& name, std::int64_t value, const Type& type);
/// A string of fixed length, as the HDF5 Table layout requires.
void write_fixed_attribute(hid_t object, const std::string& name, const std::string& value);

/// The type of strings of variable length in UTF-8. Throws Error.
Type text_type();

/// An attribute of one element, opened if `object` has it; else its type is not valid.
struct ScalarAttribute {
  ScalarAttribute(hid_t object, const std::string& name);

  Attribute attribute;
  Type type;
};

/// The string attribute `name` of `object`, or an empty string when it has none. Throws Error if it
/// is longer than 1 MiB.
std::string read_text_attribute(hid_t object, const std::string& name);
/// The names of all attributes of `object`, in alphabetical order.
std::vector<std::string> attribute_names(hid_t object);
/// The integer attribute `name` of `object`, or nothing if it has none.
std::optional<std::int64_t> read_integer_attribute(hid_t object, const std::string& name);

}  // namespace shardstream::io::hdf5
