#include <fcntl.h>
#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <random>
#include <span>

#include "core/descriptor.hpp"
#include "core/error.hpp"
#include "report/page/page.hpp"

namespace shardstream::report {
namespace {

/// A random name for the part file, in the form of a UUID.
std::string make_uuid() {
  std::random_device random;
  std::array<unsigned, 4> words{};
  for (auto& word : words) word = random();
  return fmt::format("{:08x}-{:04x}-{:04x}-{:04x}-{:04x}{:08x}", words[0], words[1] >> 16,
                     words[1] & 0xffffU, words[2] >> 16, words[2] & 0xffffU, words[3]);
}

}  // namespace

void write_page(const std::string& html, const std::filesystem::path& path,
                io::Overwrite overwrite) {
  io::PartFile part(path, overwrite, make_uuid(), io::Contents::page);
  part.reserve(html.size());
  Descriptor file(part.part_path(), O_WRONLY | O_NOFOLLOW);
  if (!file.valid() || !file.write_at(0, std::as_bytes(std::span(html))) || !file.close()) {
    throw Error(fmt::format("cannot write '{}' ({}): check that its disk is not full",
                            part.part_path().string(), errno_text(errno)));
  }
  part.publish();
}

}  // namespace shardstream::report
