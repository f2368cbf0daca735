// Errors for files of other formats name the format and a remedy.
#include "io/hdf5/unreadable_file.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "io/hdf5/lookup.hpp"
#include "support/errors.hpp"
#include "support/hdf5_inputs.hpp"
#include "support/temporary_folder.hpp"

namespace shardstream::io {
namespace {

using namespace std::string_literals;
using test::error_of;
using test::names;

std::string refusal(const std::string& file) {
  const hdf5::Lock lock;
  return error_of([&] { open_input_file(file); });
}

TEST(UnreadableFiles, ErrorsNameTheFormatAndTheRemedy) {
  const test::TemporaryFolder folder;
  const std::string rest(300, '\0');
  const std::vector<std::pair<std::string, std::vector<std::string>>> formats = {
      {"CDF\x01"s + rest, {"netCDF-3", "nccopy"}},
      {"CDF\x02"s + rest, {"netCDF-3", "nccopy"}},
      {"CDF\x05"s + rest, {"netCDF-3", "nccopy"}},
      {"\x0e\x03\x13\x01"s + rest, {"HDF4", "h4toh5"}},
      {"\x93NUMPY\x01"s + rest, {"npy", "numpy.load"}},
      {"PK\x03\x04"s + rest, {"npz", "zip"}},
      {"\x1f\x8b\x08"s + rest, {"gzip", "gunzip"}},
      {"BZh9"s + rest, {"bzip2", "bunzip2"}},
      {"\xfd\x37zXZ"s + rest, {"xz", "unxz"}},
      {"\x28\xb5\x2f\xfd"s + rest, {"zstd", "unzstd"}},
      {"MATLAB 5.0 MAT-file" + rest, {"MATLAB", "-v7.3"}},
      {"SIMPLE  =   T" + rest, {"FITS"}},
      {"GRIB" + rest, {"GRIB", "cdo"}},
      {"PAR1" + rest, {"Parquet"}},
      {"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", {"git lfs pull"}},
      {"<!DOCTYPE html><html></html>", {"HTML"}},
      {"a,b\n1,2\n", {"CSV", "numpy.loadtxt"}},
      {"Temperatur in \u00b0C;1,5\r\n", {"CSV"}},
      {std::string(400, '\x81'), {"HDF5 signature"}},
      {"text, but with a zero byte\0"s, {"HDF5 signature"}}};
  for (const auto& [contents, words] : formats) {
    const std::string file = folder / "x.h5";
    std::ofstream(file, std::ios::binary) << contents;
    const std::string message = refusal(file);
    EXPECT_TRUE(names(message, words));
    EXPECT_TRUE(names(message, "'" + file + "'"));
  }
}

TEST(UnreadableFiles, ErrorsNameZarrFolders) {
  for (const char* member : {".zgroup", ".zarray", ".zattrs", ".zmetadata", "zarr.json"}) {
    const test::TemporaryFolder folder;
    std::ofstream(folder / member) << "{}";
    EXPECT_TRUE(names(refusal(folder.path().string()), "Zarr", folder.path().string()));
  }
  const test::TemporaryFolder folder;
  EXPECT_FALSE(names(refusal(folder.path().string()), "Zarr"));
}

}  // namespace
}  // namespace shardstream::io
