#include "experiments/code.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <functional>
#include <set>

namespace shardstream::experiments {
namespace {

using Words = std::set<std::string, std::less<>>;

constexpr std::array<std::string_view, 3> device_words = {"__global__", "__device__",
                                                          "__constant__"};

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

/// The end of a literal that begins at `begin` with a quotation mark.
std::size_t end_of_literal(std::string_view line, std::size_t begin) {
  std::size_t end = begin + 1;
  while (end < line.size() && line[end] != line[begin]) end += line[end] == '\\' ? 2 : 1;
  return std::min(end + 1, line.size());
}

/// A line without its comment and without literals.
std::string code_in(std::string_view line) {
  std::string code;
  for (std::size_t i = 0; i < line.size();) {
    if (line.substr(i).starts_with("//")) break;
    // 1'000 has a separator, not a literal.
    const bool is_separator = line[i] == '\'' && i > 0 && is_word(line[i - 1]);
    if (line[i] == '"' || (line[i] == '\'' && !is_separator)) {
      i = end_of_literal(line, i);
      code += ' ';
    } else {
      code += line[i++];
    }
  }
  code.erase(code.find_last_not_of(" ") + 1);
  return code;
}

Words words_in(std::string_view code) {
  Words words;
  for (std::size_t i = 0; i < code.size();) {
    std::size_t end = i;
    while (end < code.size() && is_word(code[end])) ++end;
    if (end > i) words.emplace(code.substr(i, end - i));
    i = std::max(end, i + 1);
  }
  return words;
}

/// `code` without the parameters of a template before it.
std::string_view without_template(std::string_view code) {
  if (!code.starts_with("template")) return code;
  int depth = 0;
  for (std::size_t i = 0; i < code.size(); ++i) {
    if (code[i] == '<') ++depth;
    if (code[i] == '>' && --depth == 0) return code.substr(std::min(code.size(), i + 2));
  }
  return code;
}

/// The name that a declaration declares: the last word before its parameters, value, size or body.
/// Attributes such as __launch_bounds__(256) are skipped with their arguments.
std::string name_in(std::string_view code) {
  std::string_view name;
  for (std::size_t i = 0; i < code.size();) {
    if (is_word(code[i])) {
      std::size_t end = i;
      while (end < code.size() && is_word(code[end])) ++end;
      name = code.substr(i, end - i);
      i = end;
      continue;
    }
    const bool is_attribute = name.starts_with("__") || name == "alignas";
    if (code[i] == '(' && is_attribute) {
      i = std::min(code.find(')', i), code.size());
    } else if (code[i] == '(' || code[i] == '=' || code[i] == '{' || code[i] == '[' ||
               code[i] == ';' || (code[i] == ':' && code.substr(i, 2) != "::")) {
      break;
    } else if (code.substr(i, 2) == "::") {
      ++i;
    }
    ++i;
  }
  return std::string(name);
}

/// Whether a declaration can be part of the code although it has no device code.
bool is_constant_or_type(std::string_view code) {
  constexpr std::array<std::string_view, 9> beginnings = {
      "constexpr ", "inline constexpr ", "enum ", "struct ", "class ", "union ", "using ",
      "namespace ", "static constexpr "};
  return std::ranges::any_of(beginnings, [&](auto word) { return code.starts_with(word); });
}

struct Found {
  Declaration declaration;
  std::string code;  ///< without comments and literals
};

/// Divides the lines of a file. It relies on clang-format: a declaration ends with a line that ends
/// with ; or } outside all brackets.
class Splitter {
 public:
  explicit Splitter(std::string_view path) : path_(path) {}

  void add(std::string_view line) {
    ++number_;
    const std::string code = code_in(line);
    const bool is_directive = line.starts_with('#');
    if (!has_code_) {
      const bool opens = line.starts_with("namespace ") && code.ends_with('{');
      if (is_directive || opens || line.starts_with("}")) {
        text_.clear();
        return;
      }
      if (line.starts_with("constexpr SourceLine ")) return;  // the place of the next kernel
      if (text_.empty() && line.empty()) return;
      if (text_.empty()) first_ = number_;
    }
    text_ += std::string(line) + '\n';
    if (is_directive || code.empty()) return;
    has_code_ = true;
    code_ += code + ' ';
    if (code.find("__global__") != code.npos && kernel_line_ == 0) kernel_line_ = number_;
    for (const char c : code) depth_ += c == '{' || c == '(' ? 1 : c == '}' || c == ')' ? -1 : 0;
    if (depth_ == 0 && (code.ends_with(';') || code.ends_with('}'))) finish();
  }
  std::vector<Found> take() { return std::move(found_); }

 private:
  void finish() {
    const std::string_view declared = without_template(code_);
    const bool is_type = declared.starts_with("struct ") || declared.starts_with("class ");
    // A function of the host may have a lambda for the device in its body.
    const Words words = words_in(is_type ? declared : declared.substr(0, declared.find('{')));
    const bool has_device_code = std::ranges::any_of(
        device_words, [&](auto word) { return words.find(word) != words.end(); });
    const bool is_kernel = words.contains("__global__");
    found_.push_back({{.path = path_,
                       .line = first_,
                       .end = number_ + 1,
                       .kernel_line = is_kernel ? kernel_line_ : 0,
                       .name = name_in(declared),
                       .text = text_,
                       .has_device_code = has_device_code},
                      code_});
    text_.clear();
    code_.clear();
    kernel_line_ = 0;
    has_code_ = false;
  }

  std::string_view path_;
  int number_ = 0, first_ = 0, kernel_line_ = 0, depth_ = 0;
  bool has_code_ = false;
  std::string text_, code_;
  std::vector<Found> found_;
};

std::vector<Found> found_in(const SourceText& source) {
  Splitter splitter(source.path);
  for (std::string_view rest = source.text; !rest.empty();) {
    const auto end = rest.find('\n');
    splitter.add(rest.substr(0, end));
    rest.remove_prefix(end == rest.npos ? rest.size() : end + 1);
  }
  return splitter.take();
}

}  // namespace

std::vector<Declaration> declarations_of(const SourceText& source) {
  std::vector<Declaration> declarations;
  for (Found& found : found_in(source)) declarations.push_back(std::move(found.declaration));
  return declarations;
}

std::vector<Declaration> code_of(const Experiment& experiment) {
  std::vector<Found> all;
  for (const SourceMember& member : source_members()) {
    if (member.experiment != experiment.name) continue;
    const auto text = std::ranges::find(source_texts(), member.path, &SourceText::path);
    for (Found& found : found_in(*text)) all.push_back(std::move(found));
  }
  std::vector<bool> is_shown(all.size());
  Words named;
  for (bool has_grown = true; has_grown;) {
    has_grown = false;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const bool is_named = is_constant_or_type(without_template(all[i].code)) &&
                            named.contains(all[i].declaration.name);
      if (is_shown[i] || !(all[i].declaration.has_device_code || is_named)) continue;
      is_shown[i] = has_grown = true;
      named.merge(words_in(all[i].code));
    }
  }
  std::vector<Declaration> declarations;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (is_shown[i]) declarations.push_back(std::move(all[i].declaration));
  }
  return declarations;
}

std::string place_of(const Declaration& declaration) {
  return fmt::format("src/experiments/{}:{}", declaration.path,
                     declaration.kernel_line > 0 ? declaration.kernel_line : declaration.line);
}

std::string code_text(const Experiment& experiment) {
  const std::vector<Declaration> declarations = code_of(experiment);
  if (declarations.empty()) {
    return fmt::format("{} has no kernel of its own.\n", experiment.name);
  }
  std::string text;
  for (std::size_t i = 0; i < declarations.size(); ++i) {
    const Declaration& declaration = declarations[i];
    const bool continues = i > 0 && declaration.path == declarations[i - 1].path &&
                           declaration.line == declarations[i - 1].end &&
                           declaration.kernel_line == 0;
    if (!continues) {
      text += fmt::format("{}// {}\n", i == 0 ? "" : "\n", place_of(declaration));
    }
    text += declaration.text;
  }
  return text;
}

}  // namespace shardstream::experiments
