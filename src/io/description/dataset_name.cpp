#include "io/description/dataset_name.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cstddef>

#include "core/error.hpp"
#include "core/text.hpp"

namespace shardstream::io {
namespace {

/// Moves the text in the last pair of brackets of the path to the selection, unless nothing is
/// before them.
void split_brackets(DatasetName& name) {
  std::string& path = name.path;
  const std::size_t open = path.rfind('[');
  if (!path.ends_with(']') || open == std::string::npos || open < 2) return;
  name.selection = path.substr(open + 1, path.size() - open - 2);
  path.resize(open);
}

/// Moves the text in the last pair of braces of the path to the member, unless nothing is before or
/// inside them.
void split_braces(DatasetName& name) {
  std::string& path = name.path;
  if (!path.ends_with('}')) return;
  std::size_t open = path.size() - 1;
  for (int depth = 1; depth > 0 && open > 0;) {
    --open;
    depth += path[open] == '}' ? 1 : path[open] == '{' ? -1 : 0;
  }
  if (open < 2 || open + 2 == path.size()) return;
  name.member = path.substr(open + 1, path.size() - open - 2);
  path.resize(open);
}

DatasetName split_at(const std::string& text, std::size_t colon) {
  DatasetName name{text.substr(0, colon), text.substr(colon + 1), ""};
  split_brackets(name);
  split_braces(name);
  return name;
}

}  // namespace

std::string DatasetName::path_and_member() const {
  return member.empty() ? path : fmt::format("{}{{{}}}", path, member);
}

std::string DatasetName::within_file() const {
  return selection ? fmt::format("{}[{}]", path_and_member(), *selection) : path_and_member();
}

DatasetName dataset_name(const std::string& text) {
  struct stat status {};
  const auto is_file = [&](const std::string& file) {
    return ::stat(file.c_str(), &status) == 0 && !S_ISDIR(status.st_mode);
  };
  const auto last = text.rfind(":/");
  if (last == std::string::npos || ::stat(text.c_str(), &status) == 0) return {text, "", ""};
  for (auto colon = last; colon != std::string::npos && colon > 0;) {
    if (is_file(text.substr(0, colon))) return split_at(text, colon);
    colon = text.rfind(":/", colon - 1);
  }
  return split_at(text, last);
}

void expect_no_selection(const std::string& name) {
  struct stat status {};
  const std::size_t open = name.rfind('[');
  if (open == std::string::npos || !name.ends_with(']') || ::stat(name.c_str(), &status) == 0) {
    return;
  }
  const std::string file = name.substr(0, open), selection = name.substr(open);
  if (::stat(file.c_str(), &status) == 0 && S_ISREG(status.st_mode)) {
    fail_as_selection_of_file(file, selection);
  }
}

void fail_as_selection_of_file(const std::string& file, const std::string& selection) {
  throw UsageError(
      fmt::format("the selection {} follows the name of the file '{}': name the data set, too, as "
                  "in {}:/PATH{}",
                  excerpt(selection), file, file, selection));
}

}  // namespace shardstream::io
