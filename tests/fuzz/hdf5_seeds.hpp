// Small HDF5 files of every layout, to be damaged.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "fuzz/fuzz.hpp"

namespace shardstream::fuzz {

struct Seed {
  std::string data;  ///< "main.h5:/d", or the file alone
  Files files;
};

/// Made in `folder`, which becomes the current one.
std::vector<Seed> hdf5_seeds(const std::filesystem::path& folder);

}  // namespace shardstream::fuzz
