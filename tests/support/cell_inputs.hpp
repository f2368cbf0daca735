// Files with data, weights and labels, and what the options reduce.by and reduce.weights make of
// them.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "support/sources.hpp"
#include "workloads/reduce/cells/cell_weights.hpp"
#include "workloads/reduce/cells/groups.hpp"

namespace shardstream::workloads {

namespace hdf5 = io::hdf5;

using Doubles = std::vector<double>;
using Integers = std::vector<std::int64_t>;
using Strings = std::vector<std::string>;
using GroupNumbers = std::vector<std::int32_t>;
using Numbers = std::vector<std::size_t>;

inline constexpr std::array option_rows = {
    OptionRow{"reduce.by", OptionKind::text, "", "", "Groups."},
    OptionRow{"reduce.weights", OptionKind::text, "", "", "Weights."},
};

inline Options options_of(const std::string& data, const std::string& by,
                          const std::string& weights, const std::string& conventions = "auto") {
  const char* const no_environment[] = {nullptr};
  CommandLine given;
  given.values = {{"input.data", data},
                  {"reduce.by", by},
                  {"reduce.weights", weights},
                  {"input.conventions", conventions}};
  return OptionTable({io::input_options(), option_rows}).resolve(given, no_environment, {});
}

/// Files with data x, weights and labels.
class CellInputs : public testing::Test {
 protected:
  /// A file with the data set x of this shape, whose dimensions have coordinates 0, 1, 2, ... if
  /// they have names.
  hdf5::File make_data(const std::string& file, const std::vector<hsize_t>& shape,
                       const Strings& dimensions = {}) {
    hdf5::File made = test::make_file(folder_ / file);
    add(made, "x", shape, dimensions);
    return made;
  }
  /// Adds a data set of 1, 2, 3, ..., and scales of its dimensions that are not there yet.
  void add(const hdf5::File& file, const std::string& name, const std::vector<hsize_t>& shape,
           const Strings& dimensions = {}) {
    hsize_t count = 1;
    for (const hsize_t extent : shape) count *= extent;
    add(file, name, shape, dimensions, test::counting<double>(count, 1));
  }
  void add(const hdf5::File& file, const std::string& name, const std::vector<hsize_t>& shape,
           const Strings& dimensions, const Doubles& values) {
    test::make_dataset(file, name, H5T_IEEE_F64LE, {shape}, H5T_NATIVE_DOUBLE, values.data());
    for (std::size_t d = 0; d < dimensions.size(); ++d) {
      add_scale(file, dimensions[d], test::counting<double>(shape[d]));
    }
    if (!dimensions.empty()) test::attach_scales(file, name, dimensions);
  }
  void add_scale(const hdf5::File& file, const std::string& name, const Doubles& values) {
    if (H5Lexists(file.get(), name.c_str(), H5P_DEFAULT) > 0) return;
    test::make_dataset(file, name, H5T_IEEE_F64LE, {{values.size()}}, H5T_NATIVE_DOUBLE,
                       values.data());
    test::make_scale(file, name, name);
  }
  /// A file with x(time, 2) and a time coordinate.
  void make_times(const std::string& file, const Doubles& times, const std::string& units,
                  const std::string& calendar = "") {
    const hdf5::Lock lock;
    const hdf5::File made = test::make_file(folder_ / file);
    add_scale(made, "time", times);
    add(made, "x", {times.size(), 2});
    test::attach_scales(made, "x", {"time", ""});
    const hdf5::Dataset scale(H5Dopen2(made.get(), "time", H5P_DEFAULT), "open");
    if (!units.empty()) hdf5::write_attribute(scale.get(), "units", units);
    if (!calendar.empty()) hdf5::write_attribute(scale.get(), "calendar", calendar);
  }
  /// Adds bounds of the time coordinate, `per_element` numbers for each, and names them.
  void add_bounds(const std::string& file, const Doubles& bounds, hsize_t per_element = 2,
                  const std::string& name = "time_bnds") {
    {
      const hdf5::Lock lock;
      const hdf5::File opened(H5Fopen((folder_ / file).c_str(), H5F_ACC_RDWR, H5P_DEFAULT), "open");
      test::make_dataset(opened, "time_bnds", H5T_IEEE_F64LE,
                         {{bounds.size() / per_element, per_element}}, H5T_NATIVE_DOUBLE,
                         bounds.data());
    }
    set(file, "time", "bounds", name);
  }
  template <class T>
  void add_labels(const hdf5::File& file, const std::string& name, hid_t stored, hid_t given,
                  const std::vector<T>& labels, const Strings& dimensions = {}) {
    test::make_dataset(file, name, stored, {{labels.size()}}, given, labels.data());
    if (!dimensions.empty()) test::attach_scales(file, name, dimensions);
  }
  static hdf5::Type text_type(std::size_t size, H5T_str_t padding = H5T_STR_NULLPAD) {
    hdf5::Type type(H5Tcopy(H5T_C_S1), "H5Tcopy");
    hdf5::check(H5Tset_size(type.get(), size), "H5Tset_size");
    if (size != H5T_VARIABLE) hdf5::check(H5Tset_strpad(type.get(), padding), "H5Tset_strpad");
    return type;
  }
  template <class Value>
  void set(const std::string& file, const std::string& dataset, const std::string& attribute,
           const Value& value) {
    const hdf5::Lock lock;
    const hdf5::File opened(H5Fopen((folder_ / file).c_str(), H5F_ACC_RDWR, H5P_DEFAULT), "open");
    const hdf5::Dataset object(H5Dopen2(opened.get(), dataset.c_str(), H5P_DEFAULT), "open");
    hdf5::write_attribute(object.get(), attribute, value);
  }

  std::string path(const std::string& text) const {
    return text.find(".h5") == std::string::npos ? text : folder_ / text;
  }
  CellGroups groups(const std::string& data, const std::string& by, const Numbers& reduced) {
    const Options options = options_of(path(data), path(by), "");
    const auto source = io::open_source(options);
    const auto found = open_groups(options, *source, reduced);
    if (!found) throw std::logic_error("no groups");
    return *found;
  }
  CellWeights weights(const std::string& data, const std::string& named, const Numbers& reduced,
                      const std::string& conventions = "auto") {
    const Options options = options_of(path(data), "", path(named), conventions);
    const auto source = io::open_source(options);
    const auto found = open_weights(options, *source, reduced);
    if (!found) throw std::logic_error("no weights");
    return *found;
  }
  std::string groups_error(const std::string& data, const std::string& by, const Numbers& reduced) {
    return test::error_of([&] { groups(data, by, reduced); });
  }
  std::string weights_error(const std::string& data, const std::string& named,
                            const Numbers& reduced) {
    return test::error_of([&] { weights(data, named, reduced); });
  }

  test::TemporaryFolder folder_;
};

}  // namespace shardstream::workloads
