#include <fcntl.h>
#include <fmt/format.h>

#include <cerrno>
#include <span>

#include "core/descriptor.hpp"
#include "core/error.hpp"
#include "core/uuid.hpp"
#include "report/page/page.hpp"

namespace shardstream::report {
void write_page(const std::string& html, const std::filesystem::path& path,
                io::Overwrite overwrite) {
  io::PartFile part(path, overwrite, random_uuid(), io::Contents::page);
  part.reserve(html.size());
  Descriptor file(part.part_path(), O_WRONLY | O_NOFOLLOW);
  if (!file.valid() || !file.write_at(0, std::as_bytes(std::span(html))) || !file.close()) {
    throw Error(fmt::format("cannot write '{}' ({}): check that its disk is not full",
                            part.part_path().string(), errno_text(errno)));
  }
  part.publish();
}

}  // namespace shardstream::report
