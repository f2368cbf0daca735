#include "io/hdf5/object_header.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/descriptor.hpp"

namespace shardstream::io {
namespace {

/// The first bytes of an object header. See sections IV.A.1 and IV.A.2 of the HDF5 File Format
/// Specification, version 3.0.
class Header {
 public:
  explicit Header(std::vector<std::byte> bytes) : bytes_(std::move(bytes)) {}

  /// The byte with class and version of the data type, if it is in the first part of the header.
  std::optional<std::uint64_t> type() const {
    constexpr std::uint64_t type_message = 3, shared = 2;
    const bool is_new = number(0, 4) == 0x5244484f;  // "OHDR"
    if (!is_new && number(0, 1) != 1) return std::nullopt;
    const std::uint64_t flags = number(5, 1);
    std::size_t at = 16;
    if (is_new) {
      at = 6 + ((flags & 0x20) != 0 ? 16 : 0) + ((flags & 0x10) != 0 ? 4 : 0) +
           (std::size_t{1} << (flags & 3));
    }
    while (at + 8 < bytes_.size()) {
      const std::uint64_t kind = number(at, is_new ? 1 : 2),
                          size = number(at + (is_new ? 1 : 2), 2);
      const std::uint64_t own_flags = number(at + (is_new ? 3 : 4), 1);
      at += is_new ? ((flags & 4) != 0 ? 6 : 4) : 8;
      if (kind == type_message && (own_flags & shared) == 0) return number(at, 1);
      at += size;
    }
    return std::nullopt;
  }

 private:
  /// A number of up to 8 bytes, the first of which is the lowest; 0 beyond the end.
  std::uint64_t number(std::size_t at, std::size_t size) const {
    std::uint64_t made = 0;
    for (std::size_t i = size; i-- > 0;) {
      const std::size_t place = at + i;
      made =
          made << 8 | (place < bytes_.size() ? std::to_integer<std::uint64_t>(bytes_[place]) : 0);
    }
    return made;
  }

  std::vector<std::byte> bytes_;
};

/// The position in the file of the header that a hard link leads to.
std::optional<std::uint64_t> position_of(const hdf5::File& file, const std::string& path) {
  const hdf5::Properties creation(H5Fget_create_plist(file.get()));
  hsize_t user_block = 0;
  if (H5Pget_userblock(creation.get(), &user_block) < 0) return std::nullopt;
#if H5_VERSION_GE(1, 12, 0)
  H5L_info2_t link{};
  haddr_t address = HADDR_UNDEF;
  if (H5Lget_info2(file.get(), path.c_str(), &link, H5P_DEFAULT) < 0 ||
      link.type != H5L_TYPE_HARD ||
      H5VLnative_token_to_addr(file.get(), link.u.token, &address) < 0) {
    return std::nullopt;
  }
  return user_block + address;
#else
  H5L_info_t link{};
  if (H5Lget_info(file.get(), path.c_str(), &link, H5P_DEFAULT) < 0 || link.type != H5L_TYPE_HARD) {
    return std::nullopt;
  }
  return user_block + link.u.address;
#endif
}

}  // namespace

bool has_native_complex_numbers(const hdf5::File& file, const std::filesystem::path& name,
                                const std::string& path) {
  constexpr std::size_t enough = 4096;
  constexpr std::uint64_t complex_class = 11, version = 5;
  const auto position = position_of(file, path);
  const Descriptor descriptor(name, O_RDONLY);
  if (!position || !descriptor.valid()) return false;
  std::vector<std::byte> bytes(enough);
  const std::int64_t got = descriptor.read_at(*position, bytes.data(), bytes.size());
  bytes.resize(static_cast<std::size_t>(std::max<std::int64_t>(got, 0)));
  return Header(std::move(bytes)).type() == (version << 4 | complex_class);
}

}  // namespace shardstream::io
