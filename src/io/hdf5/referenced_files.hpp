// Files that an HDF5 file refers to: targets of external links, sources of virtual data sets, and
// external storage. They are found in the same way as by HDF5, before HDF5 opens them. The caller
// must hold the lock.
#pragma once

#include <exception>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "io/hdf5/handles.hpp"

namespace shardstream::io {

/// The kind of reference from one file to another.
enum class ReferenceKind { external_link, virtual_source, external_storage };

/// The file that HDF5 opens for `name` in `file`, in the order of HDF5's reference manual
/// (H5Lcreate_external, H5Pset_virtual_prefix, H5Pset_external); nothing if there is none. Throws
/// UsageError for a FIFO, a device or a socket, since opening it could block for ever.
std::optional<std::filesystem::path> find_referenced(ReferenceKind reference,
                                                     const std::filesystem::path& file,
                                                     const std::string& name);

/// Access properties for opening a data set or a group. They check and record the file of each
/// external link before HDF5 opens it. Not movable, since HDF5 keeps the address of this object.
class FollowedLinks {
 public:
  /// `access` are properties of data set access, or invalid for the default ones.
  explicit FollowedLinks(hdf5::Properties access = {});
  FollowedLinks(const FollowedLinks&) = delete;
  FollowedLinks& operator=(const FollowedLinks&) = delete;

  hid_t access() const { return access_.get(); }

  struct Target {
    std::filesystem::path file;
    std::string object;  ///< the path in that file
  };
  /// In the order in which the links were followed.
  const std::vector<Target>& targets() const { return targets_; }

  /// Call it after a failed opening. Throws UsageError if the file of a link is the reason.
  void explain_failure() const;

 private:
  static herr_t follow(const char* parent_file, const char* parent_group, const char* child_file,
                       const char* child_object, unsigned* flags, hid_t access, void* self);
  void follow(const char* file, const char* group, const char* child, const char* object);

  hdf5::Properties access_;
  std::vector<Target> targets_;
  std::exception_ptr problem_;
};

/// Access properties that do not follow external links.
hdf5::Properties access_without_external_links();

}  // namespace shardstream::io
