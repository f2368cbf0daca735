// Arrays of a result with named dimensions and coordinates, and the programs that open them.
#include <sys/stat.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <vector>

#include "io/hdf5/dimensions.hpp"
#include "io/output/dataset_file.hpp"
#include "support/errors.hpp"
#include "support/hdf5_inputs.hpp"
#include "support/result_files.hpp"

namespace shardstream::io {
namespace {

using test::counting;

class LabelledResults : public ResultFiles {
 protected:
  /// Allocates an output with the values 0, 1, 2, ..., with NaN for `gap`, and writes it.
  template <class T>
  static void write(ResultFile& result, const std::string& name, ElementType type,
                    const std::vector<std::uint64_t>& shape, const LabelledData& labels,
                    double gap = -1) {
    const std::uint64_t offset = result.dataset("/results", name, type, shape, bytes_of(labels));
    std::vector<T> values = counting<T>(saturating_product(shape));
    for (T& value : values) {
      if (value == static_cast<T>(gap)) value = std::numeric_limits<T>::quiet_NaN();
    }
    const RangeWriter writer(result.part_path(), offset, type);
    const std::span<const std::byte> bytes = std::as_bytes(std::span(values));
    const std::size_t half = values.size() / 2 * sizeof(T);  // in any order
    writer.write(half / sizeof(T), bytes.subspan(half));
    writer.write(0, bytes.first(half));
    writer.sync();
  }

  static LabelledData labels() {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    LabelledData data;
    data.dimensions = {{"season", 4}, {"lat", 2}, {"dim_2", 3}};
    data.arrays.push_back({"season",
                           "season",
                           ElementType::i64,
                           std::vector<std::string>{"DJF", "MAM", "JJA", "\xc3\xa4"},
                           {{"long_name", std::string("season of time")}}});
    data.arrays.push_back({"lat",
                           "lat",
                           ElementType::f32,
                           std::vector<double>{-30, 10},
                           {{"units", std::string("degrees_north")}}});
    data.arrays.push_back(
        {"size", "season", ElementType::i64, std::vector<std::int64_t>{90, 92, 92, 0}});
    data.arrays.push_back({"depth", "", ElementType::f64, std::vector<double>{5}});
    data.arrays.push_back({"basin", "", ElementType::f64, std::vector<std::string>{"Atlantic"}});
    data.existing.push_back({"mean",
                             {"season", "lat", "dim_2"},
                             {{"_FillValue", nan},
                              {"units", std::string("K")},
                              {"coordinates", std::string("depth basin size")}}});
    data.existing.push_back({"count", {"season", "lat", "dim_2"}, {{"_FillValue", -1.0}}});
    data.existing.push_back({"small", {"lat"}, {{"_FillValue", std::int64_t{-1}}}});
    data.existing.push_back({"total", {}, {{"_FillValue", nan}, {"units", std::string("J")}}});
    return data;
  }

  void publish_labelled() {
    ResultFile result(file_, Overwrite::never, uuid, 1 << 20);
    const LabelledData data = labels();
    write<float>(result, "mean", ElementType::f32, {4, 2, 3}, data, 7);
    write<std::int64_t>(result, "count", ElementType::i64, {4, 2, 3}, {});
    write<std::int8_t>(result, "small", ElementType::i8, {2}, {});
    write<double>(result, "total", ElementType::f64, {}, {});
    struct stat before {
    }, after{};
    result.attribute("/results", "verified", std::int64_t{1});
    ASSERT_EQ(::stat(result.part_path().c_str(), &before), 0);
    result.labelled("/results", data);
    result.publish();
    ASSERT_EQ(::stat(file_.c_str(), &after), 0);
    EXPECT_LE(after.st_size, before.st_size + static_cast<off_t>(bytes_of(data)));
  }
};

TEST_F(LabelledResults, HaveDimensionsWithTheirCoordinates) {
  publish_labelled();
  const hdf5::Lock lock;
  const hdf5::File file(H5Fopen(file_.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), "open");
  const hdf5::Dataset mean(H5Dopen2(file.get(), "/results/mean", H5P_DEFAULT), "open");
  EXPECT_EQ(text_of(dimensions_of(mean, "mean")), "season=4 x lat=2 x dim_2=3");
  const auto lat = read_coordinates(mean, 1, "mean");
  ASSERT_TRUE(lat.has_value());
  EXPECT_EQ(lat->values, (std::vector<double>{-30, 10}));
  EXPECT_EQ(attribute_of(*lat, "units"), "degrees_north");
  EXPECT_FALSE(read_coordinates(mean, 0, "mean").has_value());  // texts
  EXPECT_FALSE(read_coordinates(mean, 2, "mean").has_value());
  const hdf5::Dataset total(H5Dopen2(file.get(), "/results/total", H5P_DEFAULT), "open");
  EXPECT_TRUE(dimensions_of(total, "total").empty());
  const hdf5::Attribute fill(H5Aopen(total.get(), "_FillValue", H5P_DEFAULT));
  const hdf5::Type type(H5Aget_type(fill.get()));
  EXPECT_EQ(H5Tequal(type.get(), H5T_NATIVE_DOUBLE), 1);
  const hdf5::Dataset small(H5Dopen2(file.get(), "/results/small", H5P_DEFAULT), "open");
  const hdf5::Attribute own(H5Aopen(small.get(), "_FillValue", H5P_DEFAULT));
  const hdf5::Type own_type(H5Aget_type(own.get()));
  EXPECT_EQ(H5Tequal(own_type.get(), H5T_NATIVE_INT8), 1);
}

constexpr const char* reader_script = R"(
import sys, h5py, netCDF4, numpy, xarray
name, copy = sys.argv[1:]
wanted = numpy.arange(24, dtype='f4').reshape(4, 2, 3)
wanted[1, 0, 1] = numpy.nan
with h5py.File(name) as f:
    g = f['results']
    assert numpy.array_equal(g['mean'][...], wanted, equal_nan=True) and g['mean'].dtype == 'f4'
    assert [d[0].name[9:] for d in g['mean'].dims] == ['season', 'lat', 'dim_2']
    assert g['mean'].dims[1][0][1] == 10 and g['total'][()] == 0 and g['total'].shape == ()
    assert g['season'].asstr()[3] == 'ä' and g['basin'].asstr()[()] == 'Atlantic'
    assert g['mean'].attrs['_FillValue'].dtype == 'f4' and g['mean'].attrs['units'] == 'K'
with netCDF4.Dataset(name) as f:
    g = f['results']
    assert {n: len(d) for n, d in g.dimensions.items()} == {'season': 4, 'lat': 2, 'dim_2': 3}
    assert g['mean'].dimensions == ('season', 'lat', 'dim_2') and g['total'].dimensions == ()
    assert g['lat'].dimensions == ('lat',) and g['season'][0] == 'DJF', g['season']
    assert g['mean'][...].mask.sum() == 1 and g['small']._FillValue.dtype == 'i1'
    assert g['count']._FillValue == -1 and g['count']._FillValue.dtype == 'i8'
with xarray.open_dataset(name, group='results') as data:
    data.load()
assert set(data.data_vars) == {'mean', 'count', 'small', 'total'}, data
assert set(data.coords) == {'season', 'lat', 'size', 'depth', 'basin'}, data
mean = data['mean']
assert mean.dims == ('season', 'lat', 'dim_2') and mean.attrs['units'] == 'K', mean
assert numpy.array_equal(mean, wanted, equal_nan=True) and mean.dtype == 'f4'
assert float(mean.sel(season='JJA', lat=10)[2]) == 17 and str(data['basin'].values) == 'Atlantic'
assert list(data['season'].values) == ['DJF', 'MAM', 'JJA', 'ä'], data['season']
assert data['season'].attrs == {'long_name': 'season of time'}, data['season']
assert data['lat'].attrs == {'units': 'degrees_north'} and data['lat'].dtype == 'f4'
assert data['total'].dims == () and data['small'].dtype.kind == 'f', data['small']
data.to_netcdf(copy)
with xarray.open_dataset(copy) as again:
    xarray.testing.assert_identical(again.load(), data)
)";

TEST_F(LabelledResults, OpenInXarrayNetcdfAndH5py) {
  const std::string python = "/usr/bin/python3 -W ignore ";
  if (std::system((python + "-c 'import h5py, netCDF4, xarray' 2>/dev/null").c_str()) != 0) {
    GTEST_SKIP() << "/usr/bin/python3 lacks h5py, netCDF4 or xarray";
  }
  publish_labelled();
  std::ofstream(folder_ / "reader.py") << reader_script;
  EXPECT_EQ(
      std::system(
          (python + (folder_ / "reader.py") + " " + file_ + " " + (folder_ / "copy.nc")).c_str()),
      0);
}

TEST_F(LabelledResults, RejectScalarsWithSeveralValues) {
  ResultFile result(file_, Overwrite::never, uuid, 1 << 20);
  LabelledData data;
  data.arrays.push_back({"two", "", ElementType::f64, std::vector<double>{1, 2}});
  EXPECT_THROW(result.labelled("/results", data), ContractError);
}

}  // namespace
}  // namespace shardstream::io
