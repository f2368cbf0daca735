// The data sets of a file as a user chooses among them: those that can be computed come first,
// coordinates come after the data, and internals of other programs are left out. The caller must
// hold the lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "io/hdf5/handles.hpp"

namespace shardstream::io {

class Catalogue {
 public:
  enum class Use : std::uint8_t {
    computable,   ///< numbers, with the filters that they need
    numbers,      ///< numbers in a form that the program cannot compute
    unopened,     ///< a link that is not followed or is broken, or an object that cannot be opened
    coordinates,  ///< computable, but they describe other data sets: see the constructor
    others,       ///< tables, strings, references or opaque values, or no elements
    dimensions    ///< netCDF's dimensions without a variable, which have no values
  };
  struct Entry {
    std::string path;
    Use use;
    std::string remark = {};  ///< "coordinates", or the reason why it is not computable
    std::string member = {};  ///< the first member with numbers, of compound values
    std::string shape =
        {};  ///< with names of dimensions; of computable data sets that text() lists
  };

  /// Lists the data sets in `group` and below, by their names in netCDF (netcdf.hpp). Coordinates
  /// are the dimension scales of HDF5, such as netCDF's coordinate variables, and the data sets
  /// that another one names in the attributes of the CF conventions for this: `coordinates`,
  /// `bounds`, `climatology` and `grid_mapping`. Their paths get the prefix `prefix`, which ends in
  /// '/'. The number of visited links is bounded, and links to other files are not followed. `name`
  /// is the name of the file for messages. Throws UsageError if the links cannot be listed.
  Catalogue(hid_t group, const std::string& name, const std::string& prefix);

  /// In the order of Use.
  const std::vector<Entry>& entries() const { return entries_; }
  /// False if there are more links than the constructor visits.
  bool is_complete() const { return is_complete_; }
  /// "/x (time=12 x lat=180), /lat (coordinates, lat=180), /names (strings) and 5 more", or "none".
  std::string text() const;

 private:
  std::vector<Entry> entries_;
  bool is_complete_;
};

}  // namespace shardstream::io
