#include "io/hdf5/virtual_mapping.hpp"

#include <algorithm>
#include <functional>

namespace shardstream::io {
namespace {

using hdf5::check;
using Hdf5Extents = std::vector<hsize_t>;

template <class Get>
std::string read_text(const Get& get, const char* what) {
  const auto length = static_cast<std::size_t>(check(get(nullptr, 0), what));
  std::string text(length + 1, '\0');
  check(get(text.data(), text.size()), what);
  text.resize(length);
  return text;
}

}  // namespace

Hdf5Extents extents_of(hid_t space) {
  const int rank = H5Sget_simple_extent_ndims(space);
  Hdf5Extents extents(static_cast<std::size_t>(std::max(rank, 0)));
  if (rank > 0) H5Sget_simple_extent_dims(space, extents.data(), nullptr);
  return extents;
}

std::string SourceName::of_block(std::uint64_t block) const {
  std::string name;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char next = text[i] == '%' && i + 1 < text.size() ? text[i + 1] : '\0';
    if (next == 'b') name += std::to_string(block);
    if (next == '%') name += '%';
    if (next == 'b' || next == '%') {
      ++i;
    } else {
      name += text[i];
    }
  }
  return name;
}

Mapping::Mapping(hid_t creation, std::size_t i) {
  constexpr auto what = "cannot read the sources of a virtual data set";
  file.text = read_text(
      [&](char* text, std::size_t n) { return H5Pget_virtual_filename(creation, i, text, n); },
      what);
  dataset.text = read_text(
      [&](char* text, std::size_t n) { return H5Pget_virtual_dsetname(creation, i, text, n); },
      what);
  in_virtual = hdf5::Space(H5Pget_virtual_vspace(creation, i), what);
  in_source = hdf5::Space(H5Pget_virtual_srcspace(creation, i), what);
}

std::optional<std::uint64_t> Mapping::elements() const {
  const hssize_t count = H5Sget_select_npoints(in_virtual.get());
  const bool endless = count < 0 || static_cast<hsize_t>(count) == H5S_UNLIMITED;
  return endless ? std::nullopt : std::optional(static_cast<std::uint64_t>(count));
}

bool Mapping::fits(const Hdf5Extents& source) const {
  const hid_t space = in_source.get();
  if (H5Sget_select_type(space) != H5S_SEL_HYPERSLABS || !elements()) return true;
  Hdf5Extents start(source.size()), end(source.size());
  if (H5Sget_simple_extent_ndims(space) != static_cast<int>(source.size())) return false;
  if (source.empty() || H5Sget_select_bounds(space, start.data(), end.data()) < 0) return true;
  return std::ranges::equal(end, source, std::less<>());
}

void MappedElements::add(const Mapping& mapping) {
  const auto elements = mapping.elements();
  is_unlimited_ = is_unlimited_ || !elements;
  sum_ += elements.value_or(0);
  can_unite_ = can_unite_ && !is_unlimited_ && ++mappings_ <= max_united &&
               H5Sget_select_type(mapping.in_virtual.get()) == H5S_SEL_HYPERSLABS;
  if (!can_unite_) return;
  if (!united_.valid()) {
    united_ = hdf5::Space(H5Scopy(mapping.in_virtual.get()), "cannot copy a selection");
    return;
  }
  check(H5Smodify_select(united_.get(), H5S_SELECT_OR, mapping.in_virtual.get()),
        "cannot unite the mappings of a virtual data set");
}

std::optional<std::uint64_t> MappedElements::count() const {
  if (is_unlimited_) return std::nullopt;
  if (!can_unite_ || !united_.valid()) return sum_;
  return static_cast<std::uint64_t>(
      check(H5Sget_select_npoints(united_.get()), "cannot count the elements of a selection"));
}

}  // namespace shardstream::io
