#include "io/hdf5/texts.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.hpp"
#include "core/text.hpp"
#include "io/hdf5/dimensions.hpp"
#include "io/hdf5/stored_type.hpp"

namespace shardstream::io {
namespace {

using hdf5::check;

/// The maximum size of a text of fixed length.
constexpr std::size_t max_fixed_text = 4096;
/// The number of texts that are read at a time.
constexpr hsize_t block = 65'536;

}  // namespace

bool TextData::are_in(const hdf5::Dataset& dataset) {
  const hdf5::Type type(H5Dget_type(dataset.get()));
  return type.valid() && H5Tget_class(type.get()) == H5T_STRING;
}

TextData::TextData(const hdf5::Dataset& dataset, const std::string& name)
    : dataset_(dataset),
      name_(name),
      type_(H5Dget_type(dataset.get()), "cannot get the type of " + name),
      dimensions_(dimensions_of(dataset, name)) {}

/// libhdf5 crashes if it reads some damaged layouts.
void TextData::expect_readable(std::uint64_t max) const {
  if (dimensions_.size() != 1 && !are_rows()) {
    throw UsageError(fmt::format("{} has {}: name texts with one dimension", name_,
                                 counted(dimensions_.size(), "dimension")));
  }
  const std::uint64_t count = dimensions_[0].extent;
  if (count > max) {
    throw UsageError(fmt::format("{} has {} texts, but at most {} are kept in memory: name fewer",
                                 name_, count, max));
  }
  if (!is_variable() && size() > max_fixed_text) {
    throw UsageError(
        fmt::format("{} has texts of {} bytes: shorten them to {}", name_, size(), max_fixed_text));
  }
  const hdf5::Properties creation(H5Dget_create_plist(dataset_.get()),
                                  "cannot get the layout of " + name_);
  const H5D_layout_t layout = H5Pget_layout(creation.get());
  if (layout == H5D_CHUNKED) {
    chunk_of(dataset_, name_);
  } else if (layout != H5D_VIRTUAL && H5Pget_external_count(creation.get()) == 0) {
    expect_stored_size(dataset_, layout, name_);
  }
}

void TextData::read_rows(hsize_t first, hsize_t count, void* out) const {
  const std::vector<hsize_t> start = {first, 0}, extent = {count, size()};
  const int rank = are_rows() ? 2 : 1;
  const hdf5::Space file(H5Dget_space(dataset_.get()), "cannot get the shape of a data set");
  const hdf5::Space memory(H5Screate_simple(rank, extent.data(), nullptr), "cannot make a space");
  if (H5Sselect_hyperslab(file.get(), H5S_SELECT_SET, start.data(), nullptr, extent.data(),
                          nullptr) >= 0 &&
      H5Dread(dataset_.get(), type_.get(), memory.get(), file.get(), H5P_DEFAULT, out) >= 0) {
    return;
  }
  throw UsageError(fmt::format("{} cannot be read (HDF5: {}): copy the file again", name_,
                               hdf5::Reasons().innermost()));
}

void TextData::read_variable(hsize_t first, hsize_t count, std::vector<std::string>& values) const {
  std::vector<char*> read(count);
  read_rows(first, count, read.data());
  for (const char* const text : read) values.emplace_back(text == nullptr ? "" : text);
  const hdf5::Space memory(H5Screate_simple(1, &count, nullptr), "cannot make a space");
  check(H5Dvlen_reclaim(type_.get(), memory.get(), H5P_DEFAULT, read.data()), "cannot free texts");
}

void TextData::read_fixed(hsize_t first, hsize_t count, std::vector<std::string>& values) const {
  const std::size_t size = this->size();
  const bool has_blanks = H5Tget_strpad(type_.get()) == H5T_STR_SPACEPAD;
  std::string read(count * size, '\0');
  read_rows(first, count, read.data());
  for (hsize_t i = 0; i < count; ++i) {
    std::string text = read.substr(i * size, size);
    text.resize(std::min(text.find('\0'), size));
    if (has_blanks) text.resize(text.find_last_not_of(' ') + 1);
    values.push_back(std::move(text));
  }
}

std::vector<std::string> TextData::read() const {
  const hsize_t count = dimensions_[0].extent;
  std::vector<std::string> values;
  for (hsize_t first = 0; first < count; first += block) {
    const hsize_t some = std::min(block, count - first);
    is_variable() ? read_variable(first, some, values) : read_fixed(first, some, values);
  }
  return values;
}

}  // namespace shardstream::io
