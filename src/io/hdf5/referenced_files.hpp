// Files that HDF5 files name: targets of external links, sources of virtual data sets, external
// storage. Finds them where HDF5 would, before HDF5 opens them. The caller holds the lock.
#pragma once

#include <exception>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "io/hdf5/handles.hpp"

namespace shardstream::io {

/// How one file names another.
enum class Reference { external_link, virtual_source, external_storage };

/// The file that HDF5 opens for `name` in `file`, in the order of HDF5's reference manual
/// (H5Lcreate_external, H5Pset_virtual_prefix, H5Pset_external); nothing if there is none. Throws
/// UsageError if it is a FIFO, a device or a socket: opening one could wait for ever.
std::optional<std::filesystem::path> find_referenced(Reference reference,
                                                     const std::filesystem::path& file,
                                                     const std::string& name);

/// Access properties for opening a data set or a group. They check the file of each external link
/// before HDF5 opens it, and remember it. Not copyable: HDF5 keeps this object's address.
class FollowedLinks {
 public:
  /// `access` are properties of data set access; the default ones if they are not valid.
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

  /// After an opening has failed: throws UsageError if a link's file is the reason.
  void explain_failure() const;

 private:
  static herr_t follow(const char* parent_file, const char* parent_group, const char* child_file,
                       const char* child_object, unsigned* flags, hid_t access, void* self);
  void follow(const char* file, const char* group, const char* child, const char* object);

  hdf5::Properties access_;
  std::vector<Target> targets_;
  std::exception_ptr problem_;
};

/// Access properties that follow no external link.
hdf5::Properties access_without_external_links();

}  // namespace shardstream::io
