#include "scale/cache.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>

#include "core/descriptor.hpp"
#include "core/error.hpp"

namespace shardstream::scale {

void prepare_cache(const std::vector<std::filesystem::path>& files, bool cold) {
  constexpr std::size_t piece = std::size_t{8} << 20;
  std::vector<std::byte> buffer(cold ? 0 : piece);
  for (const auto& path : files) {
    const auto fail = [&] {
      throw Error(fmt::format("cannot read '{}': {}", path.string(), errno_text(errno)));
    };
    const Descriptor file(path, O_RDONLY);
    if (!file.valid()) fail();
    if (cold) {
      fdatasync(file.get());  // dirty pages would not be dropped; may be unsupported
      const int error = posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED);
      if (error != 0) errno = error, fail();
      continue;
    }
    std::int64_t got = 1;
    for (std::uint64_t at = 0; got > 0; at += static_cast<std::uint64_t>(got)) {
      got = file.read_at(at, buffer.data(), buffer.size());
      if (got < 0) fail();
    }
  }
}

}  // namespace shardstream::scale
