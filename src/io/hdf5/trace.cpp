#include "io/hdf5/trace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "core/error.hpp"
#include "core/limits.hpp"
#include "core/shard.hpp"
#include "core/text.hpp"
#include "io/hdf5/attribute_content.hpp"
#include "io/hdf5/fill_value.hpp"
#include "io/hdf5/lookup.hpp"
#include "io/hdf5/netcdf.hpp"
#include "io/hdf5/referenced_files.hpp"
#include "io/hdf5/stored_type.hpp"
#include "io/hdf5/virtual_mapping.hpp"

namespace shardstream::io {
namespace {

namespace fs = std::filesystem;
using hdf5::check;
using Hdf5Extents = std::vector<hsize_t>;

constexpr std::size_t max_listed = 8;  // descriptions in a message

// ---------------------------------------------------------------- properties of data sets

/// A type that holds every number of every element type exactly.
using Number = long double;

/// The fill value of a data set; 0 if it holds no numbers.
Number fill_number(const hdf5::Dataset& dataset) {
  constexpr auto what = "cannot convert the fill value of a data set";
  const hdf5::Type type = number_type(hdf5::Type(H5Dget_type(dataset.get()), what).get());
  if (!type.valid() || !bits_fit(type.get())) return 0;
  std::vector<std::byte> bytes = stored_fill_value(dataset);
  bytes.resize(std::max(bytes.size(), sizeof(Number)));
  check(H5Tconvert(type.get(), H5T_NATIVE_LDOUBLE, 1, bytes.data(), nullptr, H5P_DEFAULT), what);
  Number number = 0;
  std::memcpy(&number, bytes.data(), sizeof number);
  return number;
}

/// The size of all elements of a data set in bytes.
std::uint64_t bytes_of(const hdf5::Dataset& dataset, const std::string& name) {
  const auto what = "cannot get the size of " + name;
  const hdf5::Space space(H5Dget_space(dataset.get()), what);
  const hdf5::Type type(H5Dget_type(dataset.get()), what);
  return saturating_product(
      static_cast<std::uint64_t>(check(H5Sget_simple_extent_npoints(space.get()), what)),
      H5Tget_size(type.get()));
}

// ---------------------------------------------------------------- the trace

class Tracer {
 public:
  /// Adds the files of a data set and returns its extents. `holders` are the virtual data sets that
  /// lead to it.
  Hdf5Extents visit(const fs::path& file, const std::string& path);
  /// The same for a file that is open as `opened`.
  Hdf5Extents visit(const hdf5::File& opened, const fs::path& file, const std::string& path);

  Origin finish(Unwritten unwritten) &&;

 private:
  void add(const fs::path& file, const std::string& dataset);
  void visit_attributes(const hdf5::Dataset& dataset, const std::string& name);
  void visit_storage(const hdf5::Dataset& dataset, const fs::path& file, const std::string& name);
  void visit_sources(const hdf5::Dataset& dataset, hid_t creation, const fs::path& file,
                     const std::string& name);
  void visit_pattern(const Mapping& mapping, const fs::path& file);
  void visit_source(const Mapping& mapping, const fs::path& file, const std::string& name);
  void visit_external_storage(const hdf5::Dataset& dataset, hid_t creation, const fs::path& file,
                              const std::string& name);
  void count_chunks(const hdf5::Dataset& dataset, const std::string& name);
  void note_gap(const hdf5::Dataset& dataset, const std::string& name, std::string gap);

  static constexpr std::size_t max_depth = 16;

  Origin origin_;
  std::vector<std::string> path_;  // FILE:/PATH of the data sets that are being visited
  std::map<std::string, Hdf5Extents> visited_;              // many mappings can share a source
  std::map<std::string, AttributeContent> own_attributes_;  // of the data set that is traced
  std::set<std::string> not_applied_;
  std::vector<std::string> gaps_;  // descriptions of elements that were never written
  std::optional<Number> fill_;     // the fill value of the data set whose files are traced
};

void Tracer::add(const fs::path& file, const std::string& dataset) {
  const InputFile now = state_of(file, dataset);
  const bool known = std::ranges::any_of(origin_.files, [&](const InputFile& each) {
    return each.device == now.device && each.inode == now.inode && each.dataset == dataset;
  });
  if (!known) origin_.files.push_back(now);
}

Hdf5Extents Tracer::visit(const fs::path& file, const std::string& path) {
  const std::string name = file.string() + ":" + path;
  if (const auto known = visited_.find(name); known != visited_.end()) return known->second;
  const hdf5::AtWork at_work(file.string(), hdf5::Stage::opening);
  return visited_[name] = visit(open_input_file(file), file, path);
}

Hdf5Extents Tracer::visit(const hdf5::File& opened, const fs::path& file, const std::string& path) {
  const std::string name = file.string() + ":" + path;
  FollowedLinks links;
  const hdf5::Dataset dataset = open_dataset(opened, file.string(), path, links);
  add(file, path);
  for (const auto& target : links.targets()) add(target.file, target.object);
  const fs::path holder = file_of(dataset);
  const std::string object = path_of(dataset);
  const hdf5::File holding(H5Iget_file_id(dataset.get()), "cannot get the file of a data set");
  add(holder, netcdf_path(holding.get(), object, H5P_DEFAULT));
  const std::string identity = fs::absolute(holder).string() + ":" + object;
  if (std::ranges::find(path_, identity) != path_.end()) {
    throw UsageError(
        fmt::format("the virtual data set {} takes data from itself: name another one", name));
  }
  if (path_.size() == max_depth) {
    throw UsageError(fmt::format(
        "{} refers to data through {} nested virtual data sets: name one that is closer "
        "to the data",
        name, max_depth));
  }
  path_.push_back(identity);
  if (path_.size() == 1) fill_ = fill_number(dataset);
  visit_attributes(dataset, name);
  visit_storage(dataset, holder, name);
  path_.pop_back();
  return extents_of(hdf5::Space(H5Dget_space(dataset.get())).get());
}

void Tracer::visit_attributes(const hdf5::Dataset& dataset, const std::string& name) {
  try {
    for (auto& attribute : value_attributes(dataset)) {
      AttributeContent content = attribute_content(dataset.get(), attribute);
      if (path_.size() == 1) {
        own_attributes_[attribute] = std::move(content);
      } else {
        const auto own = own_attributes_.find(attribute);
        if (own != own_attributes_.end() && own->second == content) continue;
        origin_.of_sources.push_back(attribute);
      }
      not_applied_.insert(std::move(attribute));
    }
  } catch (const Error& error) {
    origin_.warnings.push_back(
        fmt::format("the values of {} are taken as stored, since its attributes, which may change "
                    "their meaning, cannot be read: {}",
                    name, error.what()));
  }
}

void Tracer::visit_storage(const hdf5::Dataset& dataset, const fs::path& file,
                           const std::string& name) {
  const auto what = "cannot get the layout of " + name;
  const hdf5::Properties creation(H5Dget_create_plist(dataset.get()), what);
  const hdf5::Type type(H5Dget_type(dataset.get()), what);
  std::string layout;
  switch (check(H5Pget_layout(creation.get()), what)) {
    case H5D_VIRTUAL:
      layout = "virtual";
      visit_sources(dataset, creation.get(), file, name);
      break;
    case H5D_CHUNKED:
      count_chunks(dataset, name);
      layout = "chunked";
      break;
    case H5D_COMPACT:
      layout = "compact";
      break;
    default:
      layout = "contiguous";
      if (H5Pget_external_count(creation.get()) > 0) {
        visit_external_storage(dataset, creation.get(), file, name);
        break;
      }
      H5D_space_status_t status{};
      check(H5Dget_space_status(dataset.get(), &status), what);
      if (status == H5D_SPACE_STATUS_NOT_ALLOCATED) {
        note_gap(dataset, name, name + " was never written");
      }
  }
  if (path_.size() > 1) return;
  const int filters = H5Pget_nfilters(creation.get());
  origin_.layout =
      fmt::format("{}{}, {}", layout, filters > 0 ? ", filtered" : "", describe_type(type.get()));
}

void Tracer::count_chunks(const hdf5::Dataset& dataset, const std::string& name) {
  const auto what = "cannot count the chunks of " + name;
  const hdf5::Space space(H5Dget_space(dataset.get()), what);
  const Hdf5Extents shape = extents_of(space.get());
  const std::vector<std::uint64_t> chunk = chunk_of(dataset, name);
  hsize_t all = 1, written = 0;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    all = saturating_product(all, ceil_div(shape[i], chunk[i]));
  }
  check(H5Dget_num_chunks(dataset.get(), space.get(), &written), what);
  if (written < all) {
    note_gap(dataset, name,
             fmt::format("{} of {} chunks of {} were never written", all - written, all, name));
  }
}

/// `gap` describes the elements of the data set that were never written. Throws UsageError if they
/// have another value when they are read through the virtual data set whose files are traced.
void Tracer::note_gap(const hdf5::Dataset& dataset, const std::string& name, std::string gap) {
  gaps_.push_back(std::move(gap));
  origin_.may_have_gaps = true;
  if (path_.size() == 1 || is_fill_value_read(dataset)) return;
  const Number fill = fill_number(dataset);
  if (fill == fill_ || (std::isnan(fill) && std::isnan(fill_.value()))) return;
  throw UsageError(
      fmt::format("{}, and HDF5 does not deliver its fill value {} through a virtual data set with "
                  "the fill value {}: write the missing elements, or name {}",
                  gaps_.back(), static_cast<double>(fill), static_cast<double>(*fill_), name));
}

void Tracer::visit_external_storage(const hdf5::Dataset& dataset, hid_t creation,
                                    const fs::path& file, const std::string& name) {
  const auto what = "cannot read where the data of " + name + " is stored";
  const int count = check(H5Pget_external_count(creation), what);
  std::uint64_t left = bytes_of(dataset, name);  // of the data set, in this file and the next ones
  for (unsigned i = 0; i < static_cast<unsigned>(count); ++i) {
    std::array<char, 4096> text{};
    off_t offset = 0;
    hsize_t bytes = 0;
    check(H5Pget_external(creation, i, text.size() - 1, text.data(), &offset, &bytes), what);
    const auto found = find_referenced(ReferenceKind::external_storage, file, text.data());
    if (!found) {
      throw UsageError(
          fmt::format("{} is stored in the file '{}', which is missing: restore it (HDF5 looks in "
                      "the current folder, or in HDF5_EXTFILE_PREFIX)",
                      name, text.data()));
    }
    add(*found, "");
    const std::uint64_t size = state_of(*found).size;
    const auto start = static_cast<std::uint64_t>(offset);
    const std::uint64_t needed = bytes == H5F_UNLIMITED ? left : bytes;
    if (start > size || needed > size - start) {
      throw UsageError(fmt::format(
          "{} is stored in {} bytes of '{}' from byte {} on, but that file ends at {}: restore it",
          name, needed, found->string(), start, size));
    }
    left -= std::min(left, needed);
  }
}

void Tracer::visit_sources(const hdf5::Dataset& dataset, hid_t creation, const fs::path& file,
                           const std::string& name) {
  const auto what = "cannot read the sources of " + name;
  std::size_t count = 0;
  check(H5Pget_virtual_count(creation, &count), what);
  MappedElements mapped;
  for (std::size_t i = 0; i < count; ++i) {
    const Mapping mapping(creation, i);
    mapped.add(mapping);
    if (mapping.is_pattern()) {
      visit_pattern(mapping, file);
    } else {
      visit_source(mapping, file, name);
    }
  }
  if (!mapped.count()) {  // HDF5 derives the extents from the existing sources
    origin_.may_have_gaps = true;
    return;
  }
  const hdf5::Space space(H5Dget_space(dataset.get()), what);
  const auto all = static_cast<std::uint64_t>(H5Sget_simple_extent_npoints(space.get()));
  if (*mapped.count() < all) {
    note_gap(
        dataset, name,
        fmt::format("{} of {} elements of {} have no source", all - *mapped.count(), all, name));
  }
}

/// Blocks are numbered from 0. Like in HDF5, the first block without a source is the end.
void Tracer::visit_pattern(const Mapping& mapping, const fs::path& file) {
  for (std::uint64_t block = 0;; ++block) {
    const std::string source = mapping.file.of_block(block);
    const std::string path = mapping.dataset.of_block(block);
    const auto found = source == "." ? std::optional(file)
                                     : find_referenced(ReferenceKind::virtual_source, file, source);
    if (!found || !has_dataset(*found, path)) return;
    visit(*found, path);
  }
}

void Tracer::visit_source(const Mapping& mapping, const fs::path& file, const std::string& name) {
  const std::string source = mapping.file.of_block(0), path = mapping.dataset.of_block(0);
  const auto found = source == "." ? std::optional(file)
                                   : find_referenced(ReferenceKind::virtual_source, file, source);
  if (!found) {
    throw UsageError(
        fmt::format("the virtual data set {} takes data from '{}' in the file '{}', which is "
                    "missing or not HDF5: restore that file",
                    name, path, source));
  }
  Hdf5Extents extents;
  try {
    extents = visit(*found, path);
  } catch (const UsageError& error) {
    throw UsageError(fmt::format("a source of {}: {}", name, error.what()), error.where());
  }
  if (!mapping.fits(extents)) {
    throw UsageError(fmt::format(
        "the virtual data set {} takes elements from {}:{} outside of its extents ({}): "
        "restore that file",
        name, found->string(), path, join(extents, "x")));
  }
}

Origin Tracer::finish(Unwritten unwritten) && {
  if (!gaps_.empty() && unwritten == Unwritten::reject) {
    throw UsageError(fmt::format(
        "{}: write the missing elements, or pass --input.unwritten fill to use the fill value",
        join_first(gaps_, max_listed, ", ")));
  }
  if (!gaps_.empty()) {
    origin_.warnings.push_back(
        fmt::format("{}: the fill value is used (--input.unwritten error makes this an error)",
                    join_first(gaps_, max_listed, ", ")));
  }
  origin_.not_applied.assign(not_applied_.begin(), not_applied_.end());
  return std::move(origin_);
}

/// HDF5 keeps all source files of a virtual data set open. If it cannot open a file, it treats the
/// file as missing and uses the fill value, without an error.
void expect_openable(const Origin& origin, const std::string& name) {
  constexpr std::uint64_t others = 128;  // results, connections of MPI, descriptors of readers
  std::set<std::pair<dev_t, ino_t>> files;
  for (const InputFile& each : origin.files) files.emplace(each.device, each.inode);
  if (files.size() + others <= openable_files()) return;
  throw UsageError(fmt::format(
      "the virtual data set {} takes data from {} files, and HDF5 opens all of them at once, but "
      "this process may not open so many ({}): raise that limit by {}, or merge files",
      name, files.size() - 1, open_files_limit(), files.size() + others - openable_files()));
}

}  // namespace

Origin trace_origin(const hdf5::File& opened, const fs::path& file, const std::string& path,
                    Unwritten unwritten) {
  const hdf5::Lock lock;
  raise_open_files_limit();
  const std::string name = file.string() + ":" + path;
  Tracer tracer;
  tracer.visit(opened, file, path);
  Origin origin = std::move(tracer).finish(unwritten);
  if (origin.layout.starts_with("virtual")) expect_openable(origin, name);
  return origin;
}

}  // namespace shardstream::io
