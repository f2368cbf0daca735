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

/// Creates them in `folder`, which becomes the current folder.
std::vector<Seed> hdf5_seeds(const std::filesystem::path& folder);

}  // namespace shardstream::fuzz
