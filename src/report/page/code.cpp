#include "report/page/code.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "core/text.hpp"
#include "report/page/html.hpp"

namespace shardstream::report::page {
namespace {

std::vector<std::string_view> lines_in(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const auto end = text.find('\n');
    lines.push_back(text.substr(0, end));
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
  }
  return lines;
}

/// A block of code with its place. `before` is the code that it is compared with; null: none.
std::string block(const Lesson::Code& code, const Lesson::Code* before) {
  const std::vector<std::string_view> lines = lines_in(code.text);
  const std::vector<bool> is_new =
      before == nullptr ? std::vector<bool>(lines.size()) : new_lines(before->text, code.text);
  std::string html;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    // Every kernel has its own comments.
    const bool is_marked = is_new[i] && !trim(lines[i]).starts_with("//");
    html += fmt::format("{}{}{}\n", is_marked ? "<mark>" : "", escape(lines[i]),
                        is_marked ? "</mark>" : "");
  }
  return fmt::format("<p class=\"basis\"><code>{}</code></p>\n<pre>{}</pre>\n", escape(code.place),
                     html);
}

/// The code at "reduction.cu:120"; null if there is none.
const Lesson::Code* at(const Lesson& lesson, const std::string& kernel) {
  const auto found = std::ranges::find_if(
      lesson.code, [&](const auto& code) { return code.place.ends_with('/' + kernel); });
  return found == lesson.code.end() ? nullptr : &*found;
}

bool has_column(const Table& table, std::string_view name) {
  const auto& columns = table.columns();
  const auto found = std::ranges::find(columns, name, &Column::name);
  return found != columns.end() && found->type == ColumnType::text;
}

}  // namespace

std::vector<bool> new_lines(std::string_view before, std::string_view after) {
  const std::vector<std::string_view> a = lines_in(before), b = lines_in(after);
  // The length of the longest common subsequence of the lines from (i, j) on.
  std::vector<std::vector<int>> length(a.size() + 1, std::vector<int>(b.size() + 1));
  const auto are_equal = [&](std::size_t i, std::size_t j) { return trim(a[i]) == trim(b[j]); };
  for (std::size_t i = a.size(); i-- > 0;) {
    for (std::size_t j = b.size(); j-- > 0;) {
      length[i][j] =
          are_equal(i, j) ? length[i + 1][j + 1] + 1 : std::max(length[i + 1][j], length[i][j + 1]);
    }
  }
  std::vector<bool> is_new(b.size(), true);
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    if (are_equal(i, j)) {
      is_new[j] = false;
      ++i;
      ++j;
    } else if (length[i + 1][j] >= length[i][j + 1]) {
      ++i;
    } else {
      ++j;
    }
  }
  return is_new;
}

std::string code_of_lesson(const Lesson& lesson) {
  if (lesson.code.empty()) return {};
  std::string html;
  for (const Lesson::Code& code : lesson.code) html += block(code, nullptr);
  return folded("Code of this program", html);
}

std::string code_of_rungs(const Lesson& lesson, const Table& table) {
  if (!has_column(table, "rung") || !has_column(table, "kernel")) return {};
  const auto file_of = [](const std::string& kernel) { return kernel.substr(0, kernel.find(':')); };
  std::set<std::string> others;  // files whose kernels stood at other lines when they ran
  for (const Row& row : table.rows()) {
    const auto kernel = row.get<std::string>("kernel");
    if (at(lesson, kernel) == nullptr) others.insert(file_of(kernel));
  }
  std::string html;
  const Lesson::Code* before = nullptr;
  std::set<std::string> shown;  // a ladder is climbed with several sizes
  for (const Row& row : table.rows()) {
    const auto rung = row.get<std::string>("rung");
    const auto kernel = row.get<std::string>("kernel");
    if (others.contains(file_of(kernel)) || !shown.insert(rung).second) continue;
    const Lesson::Code* const code = at(lesson, kernel);
    html += fmt::format("<h4>{}</h4>\n", with_code(rung));
    html +=
        code == before ? "<p>The kernel above, with other arguments.</p>\n" : block(*code, before);
    before = code;
  }
  if (html.empty()) return {};
  return folded("Kernels of the rungs, with the lines that each one changes", html);
}

}  // namespace shardstream::report::page
