// HDF5 for this room alone: the one lock, owners of its handles, and checked calls whose errors
// carry HDF5's own reasons. No other room calls HDF5.
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

/// Held for every call into HDF5, which is not thread-safe as packaged. Recursive, because owners
/// take it to close themselves wherever they go out of scope. Keeps HDF5 from printing. A crash of
/// the thread that holds it ends as hdf5_crash.hpp says.
class Lock {
 public:
  Lock();

 private:
  struct Silence {
    Silence();
  };

  std::lock_guard<std::recursive_mutex> guard_;
  Silence silence_;
  Inside inside_;  // after `silence_`, whose first call must be HDF5's first
};

/// The reasons of the call that failed last, innermost first. Needs the lock, held since that call.
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

/// "WHAT: HDF5: REASON", thrown as Error. Needs the lock.
[[noreturn]] void fail(std::string_view what,
                       std::source_location where = std::source_location::current());

/// The value of a call, or an Error when the value is negative. `what` completes "cannot ...".
template <class Value>
Value check(Value value, std::string_view what,
            std::source_location where = std::source_location::current()) {
  if (value < 0) fail(what, where);
  return value;
}

/// Owner of a handle. Closing in the destructor is silent: code that writes calls close() and
/// checks it, so that a failure here follows an error which is on its way already.
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

  /// Negative when HDF5 could not close it (for a file: could not write it out).
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

/// File access with the POSIX driver. `locking` false: HDF5 takes no lock on the file, unless
/// HDF5_USE_FILE_LOCKING demands it.
Properties posix_access(bool locking);

/// Attributes are made anew if they exist. Strings are UTF-8 of variable length: any length fits,
/// and h5py gives a str.
void write_attribute(hid_t object, const std::string& name, const std::string& value);
void write_attribute(hid_t object, const std::string& name, double value);
void write_attribute(hid_t object, const std::string& name, std::int64_t value);
void write_attribute(hid_t object, const std::string& name, const std::vector<std::int64_t>& value);
/// A string of fixed length, as the HDF5 Table layout wants it.
void write_fixed_attribute(hid_t object, const std::string& name, const std::string& value);

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
/// The integer attribute `name` of `object`, or nothing when it has none.
std::optional<std::int64_t> read_integer_attribute(hid_t object, const std::string& name);

}  // namespace shardstream::io::hdf5
