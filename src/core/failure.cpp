#include "core/failure.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <filesystem>
#include <new>
#include <stdexcept>
#include <system_error>

#include "core/descriptor.hpp"
#include "core/limits.hpp"

namespace shardstream {
namespace {

std::string lack_of_memory(std::string_view remedy) {
  return fmt::format("there is not enough memory ({}): raise the limit of this process{}{}",
                     errno_text(ENOMEM), remedy.empty() ? ", or free some" : ", or ", remedy);
}

std::string message_of_system(const std::system_error& error) {
  if (error.code() == std::errc::resource_unavailable_try_again) {
    return fmt::format(
        "a thread cannot be started ({}): raise the limits of threads and address space, or bind "
        "the rank to fewer CPUs",
        with_limit(error.code().message(), thread_limits()));
  }
  const auto* const file = dynamic_cast<const std::filesystem::filesystem_error*>(&error);
  if (file == nullptr) return error.what();
  const std::string path = file->path1().string();
  return fmt::format(
      "{} cannot be accessed ({}): check the path and the permissions of its folders",
      path.empty() ? "the current folder" : fmt::format("'{}'", path), error.code().message());
}

/// Whether the cause is a path or a permission, which the user can change.
bool is_path_error(const std::error_code& code) {
  for (const auto path_error :
       {std::errc::permission_denied, std::errc::operation_not_permitted,
        std::errc::no_such_file_or_directory, std::errc::not_a_directory, std::errc::is_a_directory,
        std::errc::filename_too_long, std::errc::too_many_symbolic_link_levels,
        std::errc::file_exists, std::errc::read_only_file_system}) {
    if (code == path_error) return true;
  }
  return false;
}

}  // namespace

std::string message_of(const std::exception& error, std::string_view memory_remedy) {
  const bool lacks_memory = dynamic_cast<const std::bad_alloc*>(&error) != nullptr ||
                            dynamic_cast<const std::length_error*>(&error) != nullptr;
  if (lacks_memory) return lack_of_memory(memory_remedy);
  if (const auto* const system = dynamic_cast<const std::system_error*>(&error)) {
    return message_of_system(*system);
  }
  const bool is_defect = dynamic_cast<const std::logic_error*>(&error) != nullptr;
  return is_defect ? fmt::format(
                         "internal error ({}): this is a defect of the program, so report it with "
                         "the command",
                         error.what())
                   : error.what();
}

ExitCode code_of(const std::exception& error) {
  if (const auto* const own = dynamic_cast<const Error*>(&error)) return own->code();
  const auto* const file = dynamic_cast<const std::filesystem::filesystem_error*>(&error);
  return file != nullptr && is_path_error(file->code()) ? ExitCode::usage : ExitCode::failed;
}

}  // namespace shardstream
