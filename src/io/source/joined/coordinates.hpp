// The coordinates of data sets that are joined: those of the first dimension go on from file to
// file, those of all others are the same.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "io/source/dataset/dataset_plan.hpp"

namespace shardstream::io {

/// The coordinates of each dimension that has some.
using AllCoordinates = std::vector<std::optional<Coordinates>>;

/// Those of plan.path in the file of the plan, which is open as `opened`. If some cannot be read,
/// they are missing, with a warning in the plan.
AllCoordinates read_all_coordinates(const OpenFile& opened, DatasetPlan& plan);

/// Compares the coordinates of data sets in the order in which they are joined.
class CoordinateCheck {
 public:
  /// Throws UsageError that names two files and the dimension if the coordinates of a dimension
  /// other than the first one differ in their meaning (CommonScale). Data sets without coordinates
  /// are not compared.
  void add(const DatasetPlan& plan, AllCoordinates coordinates);

  /// A sentence that names two files if equal coordinates along the first dimension have different
  /// meanings, because of their units or calendars; else empty.
  const std::string& mixed_units() const { return mixed_units_; }
  /// A warning that names two files if all data sets have coordinates along the first dimension in
  /// the same units, but those of one file do not go on after those of the file before it.
  std::string disorder() const;

 private:
  /// Coordinates, and the file that has them.
  struct Known {
    std::string file;
    Coordinates coordinates;
  };
  /// The first and the last coordinate of a file along the first dimension.
  struct Span {
    std::string file;
    double first, last;
  };

  /// Throws UsageError if the coordinates of a dimension differ.
  static void expect_same(std::size_t dimension, const Known& one, const Known& two);
  void note_first_dimension(const std::string& file, const Coordinates& own);

  std::map<std::size_t, Known> known_;  // of the first file that has some, by dimension
  std::string mixed_units_;
  std::vector<Span> spans_;
  bool all_have_some_ = true;
};

/// OpenDataset::coordinates() of a data set whose file is opened once more.
std::optional<Coordinates> read_coordinates(const DatasetPlace& place, std::size_t dimension);

/// The bounds of the coordinates of a dimension of a data set, in the same way.
std::optional<Bounds> read_bounds(const DatasetPlace& place, std::size_t dimension);

/// The coordinates along the first dimension of data sets that are joined, one after another.
/// Nothing if one of them has none, or if they are more than `max_coordinates`.
/// Their type is the common one of all files. Throws UsageError if they have different units.
std::optional<Coordinates> joined_coordinates(const Origin& origin);

/// The same for times in different units, as microseconds since 1970. Nothing if they are no times,
/// or if their calendars do not count the same days. Throws UsageError for units that are no time,
/// and for a value that is none.
std::optional<Coordinates> joined_times(const Origin& origin);

/// The coordinate of index `row` of the first dimension of joined data sets. Opens only the file
/// that contains it. As joined_coordinates() otherwise.
std::optional<double> joined_coordinate(const Origin& origin, std::uint64_t row);

}  // namespace shardstream::io
