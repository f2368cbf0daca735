// The groups of elements along a dimension: the option reduce.by.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "core/options.hpp"
#include "io/description/labelled_data.hpp"
#include "io/description/origin.hpp"
#include "io/source/dimension_match.hpp"
#include "io/source/result_labels.hpp"
#include "io/source/source.hpp"

namespace shardstream::workloads {

/// The groups of the selected indices of one dimension of the data.
struct CellGroups {
  std::size_t dimension;  ///< index into Source::dimensions() of the data; one of the reduced ones
  /// The group of each selected index of the dimension; -1 if it belongs to none, since its label
  /// is missing or empty.
  std::vector<std::int32_t> group_of;
  /// The label of each group, in ascending order. At least one group. A month, a season or a year
  /// without any index is a group, too.
  std::variant<std::vector<std::int64_t>, std::vector<std::string>> labels;
  std::string name;           ///< of the new dimension: "month", "season", "year", or a data set
  io::Attributes attributes;  ///< of the labels, such as units and long_name
  std::string by;             ///< "time:month", or the name of the data set, "l.h5:/basin"
  /// How labels were paired with the data.
  io::PairedDimensions paired = {};
  /// The data set that the dates are the middle of: bounds of the coordinates; empty if there are
  /// none.
  std::string bounds = {};
  io::Origin origin;  ///< the files of the labels; no files if they are in those of the data

  /// The number of groups.
  std::size_t count() const;
  /// Whether every index has a group.
  bool have_all() const;
  /// The label of a group as text: "3", "DJF".
  std::string label(std::size_t group) const;
  /// The groups as a dimension of a result with the labels as coordinates. Its name is `name`,
  /// changed by netcdf_name().
  io::ResultDimension result_dimension(std::set<std::string>& taken) const;
};

/// The largest number of labels in a data set, which are kept in memory.
inline constexpr std::uint64_t max_labels = std::uint64_t{1} << 27;

/// The groups that the option names for `data`; nothing if it is empty.
///
/// DIMENSION:month, DIMENSION:season and DIMENSION:year are taken from the dates of the dimension's
/// coordinates (io/source/dates.hpp). The groups are the months 1 to 12, the seasons DJF, MAM, JJA
/// and SON, or the years from the first to the last one.
///
/// FILE:/PATH names a data set with one dimension, of integers or texts. Its distinct values are
/// the groups: integers in ascending order, texts in the order of their bytes. Missing integers and
/// empty texts belong to no group. Floats count as integers if they are whole or NaN. Its dimension
/// is the one of `reduced` with the same name, or if there is none, the only one with the same
/// length: that of all indices, or of the selected ones. They are paired with the data by
/// io::pair_elements().
///
/// Throws UsageError if the option can be neither, if the dimension is not in `reduced`, if it has
/// no dates, if the data set cannot be read, is no list of integers or texts, has more than
/// `max_labels` elements or fits no dimension or several, and if no index has a label. Takes the
/// lock of HDF5.
std::optional<CellGroups> open_groups(const Options& options, const io::Source& data,
                                      std::span<const std::size_t> reduced);

}  // namespace shardstream::workloads
