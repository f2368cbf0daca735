#include "io/output/text_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <span>
#include <system_error>

#include "core/descriptor.hpp"
#include "core/error.hpp"
#include "core/uuid.hpp"
#include "io/output/part_file.hpp"

namespace shardstream::io {

void write_text(const Destination& destination, std::string_view text) {
  expect(std::ranges::any_of(text_marks,
                             [&](const TextMark& mark) {
                               return mark.contents == destination.contents &&
                                      text.starts_with(mark.start);
                             }),
         "a text file begins with its mark");
  PartFile part(destination, random_uuid());
  part.reserve(text.size());
  Descriptor file(part.part_path(), O_WRONLY | O_NOFOLLOW);
  if (!file.valid() || !file.write_at(0, std::as_bytes(std::span(text))) || !file.close()) {
    throw Error(fmt::format("{}: cannot write '{}' ({}): check that its disk is not full",
                            destination.option, part.part_path().string(), errno_text(errno)));
  }
  part.publish();
}

void make_folder(const std::filesystem::path& path, const std::string& option) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) expect_folder_name(path, option);
  std::filesystem::create_directories(path, error);
  std::error_code unreadable;
  if (std::filesystem::is_directory(path, unreadable)) return;
  throw UsageError(fmt::format("{}: cannot create the folder '{}' ({}): choose another {}", option,
                               path.string(),
                               error ? error.message() : "something else has this name", option));
}

}  // namespace shardstream::io
