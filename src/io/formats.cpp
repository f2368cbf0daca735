// All formats of files.
#include "io/description/format.hpp"
#include "io/hdf5/format.hpp"

namespace shardstream::io {

std::unique_ptr<OpenFile> open_data_file(const std::filesystem::path& file) {
  return hdf5_format.open(file);
}

}  // namespace shardstream::io
