// Members of compound types, by their names. The caller must hold the lock.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/hdf5/handles.hpp"

namespace shardstream::io {

/// A member of a compound type, or of a member of it.
struct Member {
  std::uint64_t offset;  ///< in the elements of the outermost type, in bytes
  hdf5::Type type;       ///< as it is stored
};

/// The member `name` of `stored`, the type of the data set `dataset`; "pos.x" is the member x of
/// the member pos. Throws UsageError if `stored` is not a compound type, if it has no such member,
/// or if number_type() has no type for it; the message names members with numbers. It is also an
/// error if the elements are larger than 256 MiB, since they are read as a whole.
Member find_member(hid_t stored, const std::string& name, const std::string& dataset);

/// The names of the members with numbers, also of nested ones ("pos.x"), in the order of the type.
/// Empty if `stored` is not a compound type. Their number and depth are bounded.
std::vector<std::string> numeric_members(hid_t stored);

/// The remedy for a data set whose elements are not numbers: "name a member with numbers (energy,
/// pos.x) as FILE:/table{energy}".
std::string remedy_without_numbers(hid_t stored, const std::string& dataset);

}  // namespace shardstream::io
