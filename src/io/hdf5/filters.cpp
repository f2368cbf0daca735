#include "io/hdf5/filters.hpp"

#include <fmt/format.h>

#include "core/error.hpp"
#include "io/hdf5/lzf.hpp"

namespace shardstream::io {
namespace {

using hdf5::check;

/// A filter and its number in HDF5.
struct Numbered {
  H5Z_filter_t id;
  Filter filter;
};

Filter::Kind kind_of(H5Z_filter_t id) {
  switch (id) {
    case H5Z_FILTER_DEFLATE:
      return Filter::Kind::deflate;
    case lzf_filter:
      return Filter::Kind::lzf;
    case H5Z_FILTER_SHUFFLE:
      return Filter::Kind::shuffle;
    case H5Z_FILTER_FLETCHER32:
      return Filter::Kind::fletcher32;
    default:
      return Filter::Kind::other;
  }
}

std::vector<Numbered> all_of(hid_t creation) {
  constexpr auto what = "cannot get the filters of a data set";
  std::vector<Numbered> filters;
  const int count = check(H5Pget_nfilters(creation), what);
  for (int i = 0; i < count; ++i) {
    char text[64] = "";
    unsigned flags = 0, config = 0, element = 0;
    std::size_t values = 1;
    const H5Z_filter_t id = H5Pget_filter2(creation, static_cast<unsigned>(i), &flags, &values,
                                           &element, sizeof text, text, &config);
    check(id, what);
    const Filter::Kind kind = kind_of(id);
    const bool has_element = kind == Filter::Kind::shuffle && values > 0;
    filters.push_back({id,
                       {kind, has_element ? element : 0,
                        fmt::format("{}{}", id, *text == '\0' ? "" : fmt::format(" ({})", text))}});
  }
  return filters;
}

bool can_decode(H5Z_filter_t id) {
  unsigned can = 0;
  return H5Zfilter_avail(id) > 0 && H5Zget_filter_info(id, &can) >= 0 &&
         (can & H5Z_FILTER_CONFIG_DECODE_ENABLED) != 0;
}

}  // namespace

std::vector<Filter> filters_of(hid_t creation, const std::string& name) {
  std::vector<Filter> filters;
  for (const auto& [id, filter] : all_of(creation)) {
    filters.push_back(filter);
    if (can_decode(id)) continue;
    // h5repack has the same HDF5, so it cannot help.
    throw UsageError(
        fmt::format("{} is compressed with filter {}, which this HDF5 does not have: install its "
                    "plugin and set HDF5_PLUGIN_PATH, or rewrite the file with a program that has "
                    "it, such as h5py with the package hdf5plugin",
                    name, filter.text));
  }
  return filters;
}

std::optional<std::string> missing_filter(hid_t creation) {
  for (const auto& [id, filter] : all_of(creation)) {
    if (!can_decode(id)) return filter.text;
  }
  return std::nullopt;
}

}  // namespace shardstream::io
