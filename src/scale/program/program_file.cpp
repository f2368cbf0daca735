#include "scale/program/program_file.hpp"

#include <fmt/format.h>

#include <system_error>

#include "core/error.hpp"
#include "core/text.hpp"
#include "process/child.hpp"

namespace shardstream::scale::program {
namespace {

namespace fs = std::filesystem;

/// The end of a message that begins with the name of a program that cannot be found.
std::string cause_and_remedy(const std::string& name) {
  std::error_code unreadable;  // ignored: then there is no such file
  const bool is_path = name.find('/') != name.npos;
  if (is_path && fs::is_directory(name, unreadable)) {
    return "is a folder: name the program in it";
  }
  if (is_path && fs::exists(name, unreadable)) {
    return fmt::format(
        "is not executable: name the compiled program, or make a script executable (chmod +x {})",
        shell_line({name}));
  }
  const std::string first = name.substr(0, name.find(' '));
  if (first != name && process::find_program(likely_program(first))) {
    return "is one word, but there is no program of this name: leave out the quotes around it";
  }
  if (!is_path && fs::is_regular_file(name, unreadable)) {
    return fmt::format("is not in PATH: write {} for the file in the current folder",
                       shell_line({"./" + name}));
  }
  return is_path ? "does not exist: check its path"
                 : "is not in PATH: name its path, or load its module";
}

}  // namespace

fs::path expect_program(const std::string& name) {
  if (const auto found = process::find_program(name))
    return fs::absolute(*found).lexically_normal();
  throw UsageError(
      fmt::format("scale.command: the program {} {}", excerpt(name), cause_and_remedy(name)));
}

std::string likely_program(const std::string& word) {
  std::error_code unreadable;  // ignored: then it is no folder
  if (word.find('/') != word.npos) return fs::is_directory(word, unreadable) ? "" : word;
  if (process::find_program(word)) return word;
  return process::find_program("./" + word) ? "./" + word : "";
}

}  // namespace shardstream::scale::program
