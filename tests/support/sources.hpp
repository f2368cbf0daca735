// The fixture of the tests of sources: opens a source of a temporary HDF5 file, and reads it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "io/source/source.hpp"
#include "support/errors.hpp"
#include "support/hdf5_inputs.hpp"
#include "support/temporary_folder.hpp"

namespace shardstream::io {

/// Opens input.data = `data`.
inline std::unique_ptr<Source> open(const std::string& data, const std::string& type = "auto",
                                    const std::string& count = "100",
                                    const std::string& seed = "1") {
  const char* const no_environment[] = {nullptr};
  CommandLine given;
  given.values = {{"input.data", data}, {"input.type", type}};
  if (data == "uniform" || data == "ramp") {
    given.values["input.count"] = count;
    given.values["input.seed"] = seed;
  }
  return open_source(OptionTable({input_options()}).resolve(given, no_environment, {}));
}

template <class T>
std::vector<T> read(const Source& source, std::uint64_t first, std::uint64_t count) {
  EXPECT_EQ(size_of(source.type()), sizeof(T));
  std::vector<T> values(count);
  auto* const bytes = reinterpret_cast<std::byte*>(values.data());
  std::fill_n(bytes, count * sizeof(T), std::byte{0xa5});  // detects what read() does not write
  source.read(first, count, bytes);
  return values;
}

template <class T>
std::vector<T> read(const Source& source) {
  return read<T>(source, 0, source.count());
}

/// The message of the error that opening gives.
inline std::string refusal(const std::string& data, const std::string& type = "auto") {
  return test::error_of([&] { open(data, type); });
}

inline void truncate_to(const std::string& path, std::uint64_t bytes) {
  std::filesystem::resize_file(path, bytes);
}

class Sources : public testing::Test {
 protected:
  test::TemporaryFolder folder_;
  std::string file_ = folder_ / "data.h5";
};

}  // namespace shardstream::io
