// The labels of results that have dimensions of a source: names and coordinates, with their
// attributes, as netCDF, xarray and h5py know them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "io/description/labelled_data.hpp"
#include "io/source/dimension_labels.hpp"
#include "io/source/source.hpp"

namespace shardstream::io {

/// The last part of the path of the data set in UTF-8: "sst" for "x.nc:/ocean/sst". The name of a
/// generator.
std::string data_name(const Source& source);

/// `name` as a name of netCDF that the attribute `coordinates` can contain, and that is not in
/// `taken`, to which it is added. It is UTF-8 (as_utf8()) and has at most 255 bytes.
std::string netcdf_name(const std::string& name, std::set<std::string>& taken);

/// The array `name` along `dimension` with `values` of these labels and their attributes. If some
/// are missing, it has the value NaN there, and the type f64 in place of a type of integers.
Array array_of(const Labels& labels, const std::string& name, const std::string& dimension,
               std::vector<double> values);

/// A dimension of a result.
struct ResultDimension {
  std::string name;
  std::uint64_t extent;
  std::optional<Array> coordinates;  ///< its name is that of the dimension
};

/// The dimensions of a source that a result has as well, in the order of `dimensions`, which are
/// indices into Source::dimensions(). The names are those of the source, or "dim_1", changed by
/// netcdf_name(). The coordinates are those of the used indices. A dimension without coordinates
/// that is used in part has its positions in the data set instead. Coordinates that cannot be read
/// are left out, with a sentence in `warnings`.
std::vector<ResultDimension> result_dimensions(const Source& source,
                                               std::span<const std::size_t> dimensions,
                                               std::set<std::string>& taken,
                                               std::vector<std::string>& warnings);

/// Adds a dimension and its coordinates.
void add(LabelledData& to, const ResultDimension& dimension);

}  // namespace shardstream::io
