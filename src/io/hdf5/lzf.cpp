#include "io/hdf5/lzf.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <span>

#include "core/error.hpp"
#include "io/filters/lzf.hpp"
#include "io/hdf5/handles.hpp"

namespace shardstream::io {
namespace {

/// Replaces the stream in HDF5's buffer by the decoded bytes. Returns their number, or 0 if it
/// fails. values[2] is the size of the chunk, if there are three. It does not encode: then HDF5
/// stores the chunk without the filter, if the filter is optional.
std::size_t decode_for_hdf5(unsigned flags, std::size_t count, const unsigned* values,
                            std::size_t bytes, std::size_t* room, void** buffer) {
  if ((flags & H5Z_FLAG_REVERSE) == 0) return 0;
  void* decoded = nullptr;
  try {
    const std::span stream(static_cast<const std::byte*>(*buffer), bytes);
    const std::uint64_t size = decoded_bytes_of_lzf(stream);
    if (size == 0) throw Error("its lzf stream is empty");
    // An earlier filter may have made the chunk smaller. If not, HDF5 would read a whole chunk.
    const std::uint64_t allocated = std::max<std::uint64_t>(size, count > 2 ? values[2] : 0);
    decoded = H5allocate_memory(allocated, true);
    if (decoded == nullptr) throw Error(fmt::format("there is no memory for {} bytes", allocated));
    decode_lzf(stream, static_cast<std::byte*>(decoded), size);
    H5free_memory(*buffer);
    *buffer = decoded;
    *room = allocated;
    return size;
  } catch (const std::exception& error) {
    H5free_memory(decoded);
    H5Epush2(H5E_DEFAULT, __FILE__, __func__, __LINE__, H5E_ERR_CLS, H5E_PLINE, H5E_READERROR,
             "lzf failed: %s", error.what());
    return 0;
  }
}

}  // namespace

void register_lzf() {
  constexpr H5Z_class2_t filter = {.version = H5Z_CLASS_T_VERS,
                                   .id = lzf_filter,
                                   .encoder_present = 1,
                                   .decoder_present = 1,
                                   .name = "lzf",
                                   .can_apply = nullptr,
                                   .set_local = nullptr,
                                   .filter = decode_for_hdf5};
  [[maybe_unused]] static const herr_t registered =
      hdf5::check(H5Zregister(&filter), "cannot register the filter lzf");
}

}  // namespace shardstream::io
