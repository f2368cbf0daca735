// The fixture of the tests of result files.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <iterator>
#include <string>

#include "io/hdf5/result_file.hpp"
#include "support/temporary_folder.hpp"

namespace shardstream::io {

inline constexpr const char* uuid = "6d7c5b2e-0f1a-4c3d-9e8f-a1b2c3d4e5f6";

inline std::string root_text(const std::string& path, const std::string& name) {
  const hdf5::Lock lock;
  const auto access = hdf5::posix_access(hdf5::FileLocking::off);
  const hdf5::File file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.get()));
  const hdf5::Object root(H5Oopen(file.get(), "/", H5P_DEFAULT));
  return hdf5::read_text_attribute(root.get(), name);
}

class ResultFiles : public testing::Test {
 protected:
  std::size_t entries() const {
    const std::filesystem::directory_iterator begin(folder_.path());
    return static_cast<std::size_t>(std::distance(begin, std::filesystem::directory_iterator()));
  }
  void publish_one(Overwrite overwrite = Overwrite::never) {
    ResultFile(file_, overwrite, uuid, 1 << 20).publish();
  }
  /// An unfinished result with the final name.
  void leave_partial() {
    publish_one();
    const hdf5::Lock lock;
    const auto access = hdf5::posix_access(hdf5::FileLocking::off);
    const hdf5::File file(H5Fopen(file_.c_str(), H5F_ACC_RDWR, access.get()));
    const hdf5::Object root(H5Oopen(file.get(), "/", H5P_DEFAULT));
    hdf5::write_attribute(root.get(), "status", std::string("partial"));
  }

  test::TemporaryFolder folder_;
  std::string file_ = folder_ / "result.h5";
};

}  // namespace shardstream::io
