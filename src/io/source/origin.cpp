#include "io/source/origin.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "core/descriptor.hpp"
#include "core/error.hpp"
#include "core/limits.hpp"
#include "core/shard.hpp"
#include "core/text.hpp"
#include "io/hdf5/handles.hpp"
#include "io/hdf5/lookup.hpp"
#include "io/hdf5/referenced_files.hpp"
#include "io/hdf5/stored_type.hpp"

namespace shardstream::io {
namespace {

namespace fs = std::filesystem;
using hdf5::check;
using Extents = std::vector<hsize_t>;

std::int64_t modified_ns(const struct stat& status) {
  return std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
}

bool is_same_file(const InputFile& file, const struct stat& status) {
  return file.device == status.st_dev && file.inode == status.st_ino;
}

// ---------------------------------------------------------------- what HDF5 tells

Extents extents_of(hid_t space) {
  const int rank = H5Sget_simple_extent_ndims(space);
  Extents extents(static_cast<std::size_t>(std::max(rank, 0)));
  if (rank > 0) H5Sget_simple_extent_dims(space, extents.data(), nullptr);
  return extents;
}

template <class Get>
std::string text_of(const Get& get, const char* what) {
  const auto length = static_cast<std::size_t>(check(get(nullptr, 0), what));
  std::string text(length + 1, '\0');
  check(get(text.data(), text.size()), what);
  text.resize(length);
  return text;
}

/// In the name of a source, "%b" stands for the number of a block, "%%" for a percent sign.
struct SourceName {
  std::string text;

  bool is_pattern() const { return of_block(0) != of_block(1); }
  std::string of_block(std::uint64_t block) const {
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
};

/// One mapping of a virtual data set.
struct Mapping {
  SourceName file, dataset;
  hdf5::Space in_virtual, in_source;

  Mapping(hid_t creation, std::size_t i) {
    constexpr auto what = "cannot read the sources of a virtual data set";
    file.text = text_of(
        [&](char* text, std::size_t n) { return H5Pget_virtual_filename(creation, i, text, n); },
        what);
    dataset.text = text_of(
        [&](char* text, std::size_t n) { return H5Pget_virtual_dsetname(creation, i, text, n); },
        what);
    in_virtual = hdf5::Space(H5Pget_virtual_vspace(creation, i), what);
    in_source = hdf5::Space(H5Pget_virtual_srcspace(creation, i), what);
  }

  bool is_pattern() const { return file.is_pattern() || dataset.is_pattern(); }
  /// The number of elements in the virtual data set; nothing if the selection is unlimited.
  std::optional<std::uint64_t> elements() const {
    const hssize_t count = H5Sget_select_npoints(in_virtual.get());
    const bool endless = count < 0 || static_cast<hsize_t>(count) == H5S_UNLIMITED;
    return endless ? std::nullopt : std::optional(static_cast<std::uint64_t>(count));
  }
  /// Whether the selection lies inside a source of these extents.
  bool fits(const Extents& source) const {
    const hid_t space = in_source.get();
    if (H5Sget_select_type(space) != H5S_SEL_HYPERSLABS || !elements()) return true;
    Extents start(source.size()), end(source.size());
    if (H5Sget_simple_extent_ndims(space) != static_cast<int>(source.size())) return false;
    if (source.empty() || H5Sget_select_bounds(space, start.data(), end.data()) < 0) return true;
    return std::ranges::equal(end, source, std::less<>());
  }
};

/// Attributes of the netCDF conventions that change the meaning of stored values.
constexpr std::array conventions = {"_FillValue",  "missing_value", "scale_factor", "add_offset",
                                    "valid_range", "valid_min",     "valid_max"};

std::optional<double> number_of(hid_t dataset, const char* name) {
  const auto [attribute, type] = hdf5::ScalarAttribute(dataset, name);
  double value = 0;
  if (!type.valid() || !natural_type(type.get()) ||
      H5Aread(attribute.get(), H5T_NATIVE_DOUBLE, &value) < 0) {
    return std::nullopt;
  }
  return value;
}

/// Whether the attribute changes values: scaling by 1 and adding 0 do not.
bool changes_values(hid_t dataset, std::string_view name) {
  if (H5Aexists(dataset, name.data()) <= 0) return false;
  if (name == "scale_factor") return number_of(dataset, name.data()) != 1.0;
  if (name == "add_offset") return number_of(dataset, name.data()) != 0.0;
  return true;
}

// ---------------------------------------------------------------- the trace

class Tracer {
 public:
  /// Adds the files of a data set and returns its extents. `holders` are the virtual data sets that
  /// lead to it.
  Extents visit(const fs::path& file, const std::string& path);

  Origin finish(const std::string& name, Unwritten unwritten) &&;

 private:
  void add(const fs::path& file, const std::string& dataset);
  void visit_storage(const hdf5::Dataset& dataset, const fs::path& file, const std::string& name);
  void visit_sources(const hdf5::Dataset& dataset, hid_t creation, const fs::path& file,
                     const std::string& name);
  void visit_pattern(const Mapping& mapping, const fs::path& file);
  void visit_source(const Mapping& mapping, const fs::path& file, const std::string& name);
  void visit_external_storage(hid_t creation, const fs::path& file, const std::string& name);
  void count_chunks(const hdf5::Dataset& dataset, const std::string& name);

  static constexpr std::size_t max_depth = 16;

  Origin origin_;
  std::vector<std::string> way_;            // FILE:/PATH of the data sets that are being visited
  std::map<std::string, Extents> visited_;  // many mappings can share a source
  std::set<std::string> conventions_;
  std::vector<std::string> gaps_;  // what was never written
};

void Tracer::add(const fs::path& file, const std::string& dataset) {
  const InputFile now = state_of(file, dataset);
  const bool known = std::ranges::any_of(origin_.files, [&](const InputFile& each) {
    return each.device == now.device && each.inode == now.inode && each.dataset == dataset;
  });
  if (!known) origin_.files.push_back(now);
}

Extents Tracer::visit(const fs::path& file, const std::string& path) {
  const std::string name = file.string() + ":" + path;
  if (const auto known = visited_.find(name); known != visited_.end()) return known->second;
  const hdf5::AtWork at_work(file.string(), hdf5::Stage::opening);
  const hdf5::File opened = open_input_file(file);
  FollowedLinks links;
  const hdf5::Dataset dataset = open_dataset(opened, file.string(), path, links);
  add(file, path);
  for (const auto& target : links.targets()) add(target.file, target.object);
  const fs::path holder = file_of(dataset);
  const std::string object = path_of(dataset);
  add(holder, object);
  const std::string identity = fs::absolute(holder).string() + ":" + object;
  if (std::ranges::find(way_, identity) != way_.end()) {
    throw UsageError(
        fmt::format("the virtual data set {} takes data from itself: name another one", name));
  }
  if (way_.size() == max_depth) {
    throw UsageError(fmt::format(
        "{} refers to data through {} nested virtual data sets: name one that is closer "
        "to the data",
        name, max_depth));
  }
  way_.push_back(identity);
  for (const char* const attribute : conventions) {
    if (changes_values(dataset.get(), attribute)) conventions_.insert(attribute);
  }
  visit_storage(dataset, holder, name);
  way_.pop_back();
  return visited_[name] = extents_of(hdf5::Space(H5Dget_space(dataset.get())).get());
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
        visit_external_storage(creation.get(), file, name);
        break;
      }
      H5D_space_status_t status{};
      check(H5Dget_space_status(dataset.get(), &status), what);
      if (status == H5D_SPACE_STATUS_NOT_ALLOCATED) gaps_.push_back(name + " was never written");
  }
  if (way_.size() > 1) return;
  const int filters = H5Pget_nfilters(creation.get());
  origin_.layout =
      fmt::format("{}{}, {}", layout, filters > 0 ? ", filtered" : "", describe_type(type.get()));
}

void Tracer::count_chunks(const hdf5::Dataset& dataset, const std::string& name) {
  const auto what = "cannot count the chunks of " + name;
  const hdf5::Space space(H5Dget_space(dataset.get()), what);
  const Extents shape = extents_of(space.get());
  const std::vector<std::uint64_t> chunk = chunk_of(dataset, name);
  hsize_t all = 1, written = 0;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    all = saturating_product(all, ceil_div(shape[i], chunk[i]));
  }
  check(H5Dget_num_chunks(dataset.get(), space.get(), &written), what);
  if (written < all) {
    gaps_.push_back(
        fmt::format("{} of {} chunks of {} were never written", all - written, all, name));
  }
}

void Tracer::visit_external_storage(hid_t creation, const fs::path& file, const std::string& name) {
  const auto what = "cannot read where the data of " + name + " is stored";
  const int count = check(H5Pget_external_count(creation), what);
  for (unsigned i = 0; i < static_cast<unsigned>(count); ++i) {
    std::array<char, 4096> text{};
    off_t offset = 0;
    hsize_t bytes = 0;
    check(H5Pget_external(creation, i, text.size() - 1, text.data(), &offset, &bytes), what);
    const auto found = find_referenced(Reference::external_storage, file, text.data());
    if (!found) {
      throw UsageError(
          fmt::format("{} is stored in the file '{}', which is missing: restore it (HDF5 looks in "
                      "the current folder, or in HDF5_EXTFILE_PREFIX)",
                      name, text.data()));
    }
    add(*found, "");
    const std::uint64_t size = state_of(*found).size;
    const auto start = static_cast<std::uint64_t>(offset);
    if (bytes != H5F_UNLIMITED && (start > size || bytes > size - start)) {
      throw UsageError(fmt::format(
          "{} is stored in {} bytes of '{}' from byte {} on, but that file ends at {}: restore it",
          name, bytes, found->string(), start, size));
    }
  }
}

void Tracer::visit_sources(const hdf5::Dataset& dataset, hid_t creation, const fs::path& file,
                           const std::string& name) {
  const auto what = "cannot read the sources of " + name;
  std::size_t count = 0;
  check(H5Pget_virtual_count(creation, &count), what);
  std::uint64_t mapped = 0;
  bool endless = false;
  for (std::size_t i = 0; i < count; ++i) {
    const Mapping mapping(creation, i);
    const auto elements = mapping.elements();
    endless = endless || !elements;
    mapped += elements.value_or(0);
    if (mapping.is_pattern()) {
      visit_pattern(mapping, file);
    } else {
      visit_source(mapping, file, name);
    }
  }
  if (endless) return;  // HDF5 makes the extents of what there is
  const hdf5::Space space(H5Dget_space(dataset.get()), what);
  const auto all = static_cast<std::uint64_t>(H5Sget_simple_extent_npoints(space.get()));
  if (mapped < all) {
    gaps_.push_back(fmt::format("{} of {} elements of {} have no source", all - mapped, all, name));
  }
}

/// Blocks are numbered from 0. Like in HDF5, the first block without a source is the end.
void Tracer::visit_pattern(const Mapping& mapping, const fs::path& file) {
  for (std::uint64_t block = 0;; ++block) {
    const std::string source = mapping.file.of_block(block);
    const std::string path = mapping.dataset.of_block(block);
    const auto found = source == "." ? std::optional(file)
                                     : find_referenced(Reference::virtual_source, file, source);
    if (!found || !has_dataset(*found, path)) return;
    visit(*found, path);
  }
}

void Tracer::visit_source(const Mapping& mapping, const fs::path& file, const std::string& name) {
  const std::string source = mapping.file.of_block(0), path = mapping.dataset.of_block(0);
  const auto found = source == "." ? std::optional(file)
                                   : find_referenced(Reference::virtual_source, file, source);
  if (!found) {
    throw UsageError(
        fmt::format("the virtual data set {} takes data from '{}' in the file '{}', which is "
                    "missing or not HDF5: restore that file",
                    name, path, source));
  }
  Extents extents;
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

Origin Tracer::finish(const std::string& name, Unwritten unwritten) && {
  const auto listed = [](const auto& words) {
    constexpr std::size_t max_words = 8;
    std::vector<std::string_view> some(words.begin(), words.end());
    const std::size_t left = some.size() - std::min(some.size(), max_words);
    some.resize(some.size() - left);
    return join(some, ", ") + (left > 0 ? fmt::format(" and {} more", left) : "");
  };
  if (!gaps_.empty() && unwritten == Unwritten::reject) {
    throw UsageError(fmt::format(
        "{}: write the missing elements, or pass --input.unwritten fill to use the fill value",
        listed(gaps_)));
  }
  if (!gaps_.empty()) {
    origin_.warnings.push_back(fmt::format(
        "{}: the fill value is used (--input.unwritten error makes this an error)", listed(gaps_)));
  }
  if (!conventions_.empty()) {
    origin_.warnings.push_back(fmt::format(
        "the values of {} are taken as stored: {} of it, or of a source of it, is not applied",
        name, listed(conventions_)));
  }
  return std::move(origin_);
}

}  // namespace

void add(Origin& to, const Origin& from) {
  for (const InputFile& file : from.files) {
    if (std::ranges::find(to.files, file) == to.files.end()) to.files.push_back(file);
  }
  for (const std::string& warning : from.warnings) {
    if (std::ranges::find(to.warnings, warning) == to.warnings.end()) {
      to.warnings.push_back(warning);
    }
  }
}

InputFile state_of(const fs::path& path, const std::string& dataset) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    throw UsageError(fmt::format("'{}' cannot be reached ({}): check the path", path.string(),
                                 errno_text(errno)));
  }
  return {.path = fs::absolute(path).lexically_normal(),
          .dataset = dataset,
          .device = status.st_dev,
          .inode = status.st_ino,
          .size = static_cast<std::uint64_t>(status.st_size),
          .modified = modified_ns(status)};
}

std::string change_of(const InputFile& file) {
  struct stat status {};
  std::string change;
  if (::stat(file.path.c_str(), &status) != 0) {
    change = errno_text(errno);
  } else if (!is_same_file(file, status)) {
    change = "another file has its name now";
  } else if (file.size != static_cast<std::uint64_t>(status.st_size)) {
    change = fmt::format("its size was {} bytes and is {}", file.size, status.st_size);
  } else if (file.modified != modified_ns(status)) {
    change = "it was written to";
  } else {
    return {};
  }
  return fmt::format("the input '{}' has changed during the run ({})", file.path.string(), change);
}

namespace {

/// HDF5 keeps all files behind a virtual data set open. It takes one that it cannot open for
/// missing and uses the fill value, without an error.
void expect_openable(const Origin& origin, const std::string& name) {
  constexpr std::uint64_t others = 128;  // results, connections of MPI, descriptors of readers
  std::set<std::pair<dev_t, ino_t>> files;
  for (const InputFile& each : origin.files) files.emplace(each.device, each.inode);
  if (files.size() + others <= openable_files()) return;
  throw UsageError(fmt::format(
      "the virtual data set {} takes data from {} files, which HDF5 opens all at once, and a "
      "process may not open as many ({}): raise that limit by {}, or merge files",
      name, files.size() - 1, open_files_limit(), files.size() + others - openable_files()));
}

}  // namespace

Origin trace_origin(const fs::path& file, const std::string& path, Unwritten unwritten) {
  const hdf5::Lock lock;
  raise_open_files_limit();
  const std::string name = file.string() + ":" + path;
  Tracer tracer;
  tracer.visit(file, path);
  Origin origin = std::move(tracer).finish(name, unwritten);
  if (origin.layout.starts_with("virtual")) expect_openable(origin, name);
  return origin;
}

void protect_inputs(const fs::path& path, std::span<const InputFile> inputs) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return;
  for (const InputFile& input : inputs) {
    if (!is_same_file(input, status)) continue;
    throw UsageError(
        fmt::format("output.file: '{}' is an input of this run ({}): choose another output.file",
                    path.string(), input.path.string()));
  }
}

}  // namespace shardstream::io
