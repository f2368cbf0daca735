// The files that contain the bytes of a data set: the named file, targets of external links,
// sources of virtual data sets, and external storage, recursively. A result must not replace them,
// and it is valid only if they do not change during the run.
#pragma once

#include <compare>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace shardstream::io {

/// The state of a file at the time of the call.
struct InputFile {
  std::string option = {};     ///< the option that names the input: "input.a"
  std::filesystem::path path;  ///< absolute
  std::string dataset;         ///< the path of the data set in it; empty if it is not HDF5
  std::uint64_t device = 0, inode = 0, size = 0;  ///< `size` in bytes
  std::int64_t modified = 0;                      ///< nanoseconds since 1970

  auto operator<=>(const InputFile&) const = default;
};

struct DatasetPlace {
  std::filesystem::path file;
  std::string path;    ///< of the data set in it
  std::uint64_t rows;  ///< extent of its first dimension
};

/// The files of a data set, and its layout.
struct Origin {
  std::vector<InputFile> files;  ///< pairs of file and data set without duplicates, named one first
  std::string layout;            ///< of the named data set: "chunks 64x64, 1 filter, f32"
  std::vector<std::string> warnings;  ///< sentences for the user
  std::vector<std::string> notes;     ///< the same, but nothing to worry about
  /// Ranges of the selection that reach beyond the coordinates: "lat=-90:90 (coordinates: -88 to
  /// 88)".
  std::vector<std::string> beyond;
  std::vector<DatasetPlace> joined;  ///< the parts of a joined data set in order; else empty
  /// A sentence if the coordinates of `joined` along the first dimension have different units, so
  /// that they cannot be used together; else empty.
  std::string mixed_units;
  /// The attributes that change what the values mean: those that are applied, and the others.
  std::vector<std::string> applied, not_applied;
  /// Attributes that sources of a virtual data set have with other contents than the data set
  /// itself. They never apply.
  std::vector<std::string> of_sources;
  /// Whether there are elements that were never written, or this is only known after reading.
  bool may_have_gaps = false;
};

/// The treatment of elements that were never written.
enum class Unwritten {
  fill,   ///< use the fill value of the data set, with a warning
  reject  ///< an error
};

/// Notes the attributes of the data set `name` that are applied. Warns of the others, except for
/// those that are already `explained` by warnings of their own.
void apply_attributes(Origin& origin, std::vector<std::string> applied,
                      std::span<const std::string> explained, const std::string& name);

/// Sets the option that names the input. A run may have several inputs, so attributes get it as
/// well, as in "_FillValue of input.b", unless it is input.data.
void set_option(Origin& origin, std::string_view option);

/// Adds the files, warnings and attributes that `to` does not have yet.
void add(Origin& to, const Origin& from);

/// Origin::not_applied as text: "_FillValue, scale_factor". It lists eight names at most.
std::string not_applied_text(const Origin& origin);

/// The origin of data sets that are joined: all files, and warnings that are alike only once. Its
/// layout is that of the first data set.
Origin unite(std::span<const Origin> origins);

/// The current state of a file. Throws UsageError if it does not exist or cannot be accessed.
InputFile state_of(const std::filesystem::path& path, const std::string& dataset = {});

/// A sentence that describes how `file` has changed since state_of(); empty if it has not changed.
std::string change_of(const InputFile& file);

/// The input to which `path` leads under any name (hard and symbolic links), or null.
const InputFile* input_at(const std::filesystem::path& path, std::span<const InputFile> inputs);

}  // namespace shardstream::io
