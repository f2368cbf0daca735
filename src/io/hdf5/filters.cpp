#include "io/hdf5/filters.hpp"

#include <fmt/format.h>

#include "core/error.hpp"

namespace shardstream::io {
namespace {

using hdf5::check;

struct Filter {
  H5Z_filter_t id;
  std::string text;
};

std::vector<Filter> all_of(hid_t creation) {
  constexpr auto what = "cannot get the filters of a data set";
  std::vector<Filter> filters;
  const int count = check(H5Pget_nfilters(creation), what);
  for (int i = 0; i < count; ++i) {
    char text[64] = "";
    unsigned flags = 0, config = 0;
    std::size_t values = 0;
    const H5Z_filter_t id = H5Pget_filter2(creation, static_cast<unsigned>(i), &flags, &values,
                                           nullptr, sizeof text, text, &config);
    check(id, what);
    filters.push_back(
        {id, fmt::format("{}{}", id, *text == '\0' ? "" : fmt::format(" ({})", text))});
  }
  return filters;
}

bool can_decode(H5Z_filter_t id) {
  unsigned can = 0;
  return H5Zfilter_avail(id) > 0 && H5Zget_filter_info(id, &can) >= 0 &&
         (can & H5Z_FILTER_CONFIG_DECODE_ENABLED) != 0;
}

}  // namespace

std::vector<std::string> filters_of(hid_t creation, const std::string& name) {
  std::vector<std::string> texts;
  for (const Filter& filter : all_of(creation)) {
    texts.push_back(filter.text);
    if (can_decode(filter.id)) continue;
    // h5repack has the same HDF5, so it cannot help.
    throw UsageError(
        fmt::format("{} is compressed with filter {}, which this HDF5 does not have: install its "
                    "plugin and set HDF5_PLUGIN_PATH, or rewrite the file with a program that has "
                    "it, such as h5py with the package hdf5plugin",
                    name, filter.text));
  }
  return texts;
}

std::optional<std::string> missing_filter(hid_t creation) {
  for (const Filter& filter : all_of(creation)) {
    if (!can_decode(filter.id)) return filter.text;
  }
  return std::nullopt;
}

}  // namespace shardstream::io
