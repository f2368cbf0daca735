#include "experiments/ladders/own_kernel.hpp"

#include <cxxabi.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <vector>

#include "core/error.hpp"
#include "core/text.hpp"
#include "experiments/bench.hpp"
#include "experiments/code.hpp"
#include "experiments/machine/nvrtc.hpp"

namespace shardstream::experiments::ladders {
namespace {

constexpr std::array the_rules = {
    KernelRules{
        "matmul", "matmul.kernel", "../../inputs/kernels/matmul.cu",
        "(const float* a, const float* b, float* c, unsigned m, unsigned n, unsigned k, float "
        "alpha, float beta), or (const float* a, const float* b, float* c, int n) for C = A B of n "
        "x n matrices; sizes may be int or unsigned",
        "block_x = 16, block_y = 16, tile_x = ::block_x, tile_y = ::block_y, shared_bytes = 0",
        R"(template <class A, class B, class N> requires(is_input<A> && is_input<B> && size_of<N> == 4)
struct form<void (*)(A, B, float*, N, N, N, float, float)> { static constexpr long long value = 8; };
template <class A, class B, class N> requires(is_input<A> && is_input<B> && size_of<N> == 4)
struct form<void (*)(A, B, float*, N)> { static constexpr long long value = 4; };
)",
        "A block has block_x x block_y threads and computes tile_y rows and tile_x columns of C; "
        "the grid covers C. m and n are multiples of 256, and k of 32. shared_bytes is the dynamic "
        "shared memory of a block. A file sets these numbers as constexpr integers at its top "
        "level; otherwise the block has 16 x 16 threads, a tile is as large as the block, and "
        "shared_bytes is 0."},
    KernelRules{
        "reduction", "reduction.kernel", "../../inputs/kernels/reduction.cu",
        "(const float* x, unsigned long long count, float* sums); the count may be a signed or "
        "unsigned integer of 4 or 8 bytes",
        "block_x = 256, per_thread = 1, blocks = 0, one_launch = 0, shared_bytes = 0",
        R"(template <class X, class N> requires(is_input<X> && size_of<N> != 0)
struct form<void (*)(X, N, float*)> { static constexpr long long value = size_of<N>; };
)",
        "A block has block_x threads, stores its sum in sums[blockIdx.x], and is responsible for "
        "per_thread elements of each thread. The kernel is launched again for the sums until one "
        "is left. With blocks, a grid has at most that many blocks, so the threads need a "
        "grid-stride loop. With one_launch = true, there is one launch, and the result is sums[0], "
        "which is 0 before. shared_bytes is the dynamic shared memory of a block. A file sets "
        "these numbers as constexpr integers at its top level; otherwise block_x is 256, "
        "per_thread 1, and the others are 0."},
};

/// The name of the code behind the user's in the log of NVRTC.
constexpr std::string_view own_part = "launch of the kernel";

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

/// The end of the comment or literal that begins at `i`; `i` if none does.
std::size_t end_of_comment_or_literal(std::string_view text, std::size_t i) {
  const std::string_view rest = text.substr(i);
  if (rest.starts_with("//")) return std::min(text.find('\n', i), text.size());
  if (rest.starts_with("/*")) return std::min(text.find("*/", i + 2), text.size() - 2) + 2;
  if (rest.front() != '"') return i;
  std::size_t end = i + 1;
  while (end < text.size() && text[end] != '"' && text[end] != '\n')
    end += text[end] == '\\' ? 2 : 1;
  return std::min(end + 1, text.size());
}

/// The text with blanks in the place of comments and literals. Lines stay.
std::string code_in(std::string_view text) {
  std::string code(text);
  for (std::size_t i = 0; i < code.size();) {
    const std::size_t end = end_of_comment_or_literal(text, i);
    for (std::size_t j = i; j < end; ++j) code[j] = code[j] == '\n' ? '\n' : ' ';
    i = std::max(end, i + 1);
  }
  return code;
}

/// The name of the function whose declaration follows: the last word before a parenthesis that is
/// no attribute. Empty if there is none.
std::string function_name(std::string_view code) {
  std::string word;
  for (std::size_t i = 0; i < code.size() && code[i] != ';' && code[i] != '{'; ++i) {
    if (is_word(code[i])) {
      std::size_t end = i;
      while (end < code.size() && is_word(code[end])) ++end;
      word = code.substr(i, end - i);
      i = end - 1;
    } else if (code[i] == '(') {
      if (!word.starts_with("__")) return word;
      int depth = 0;  // the arguments of __launch_bounds__
      do {
        depth += code[i] == '(' ? 1 : code[i] == ')' ? -1 : 0;
      } while (depth > 0 && ++i < code.size());
    }
  }
  return {};
}

struct Found {
  std::string function;
  int line;
};
std::vector<Found> kernels_in(std::string_view text) {
  constexpr std::string_view mark = "__global__";
  const std::string code = code_in(text);
  std::vector<Found> found;
  for (std::size_t i = code.find(mark); i != code.npos; i = code.find(mark, i + 1)) {
    const std::size_t end = i + mark.size();
    if ((i > 0 && is_word(code[i - 1])) || (end < code.size() && is_word(code[end]))) continue;
    std::string name = function_name(std::string_view(code).substr(end));
    if (name.empty() || std::ranges::find(found, name, &Found::function) != found.end()) continue;
    const auto line =
        1 + std::count(code.begin(), code.begin() + static_cast<std::ptrdiff_t>(i), '\n');
    found.push_back({std::move(name), static_cast<int>(line)});
  }
  return found;
}

/// The whole file. Throws UsageError if it cannot be read.
std::string text_of_file(const KernelRules& rules, const std::string& path) {
  std::error_code ignored;
  const bool is_file = std::filesystem::is_regular_file(path, ignored);
  std::ifstream file(is_file ? path : std::string(), std::ios::binary);
  std::string text;
  if (file.is_open()) text.assign(std::istreambuf_iterator<char>(file), {});
  if (!file.is_open() || file.bad()) {
    throw UsageError(fmt::format("--{}: {} cannot be read: name a file with a CUDA kernel",
                                 rules.option, excerpt(path)));
  }
  if (text.find('\0') != text.npos) {
    throw UsageError(fmt::format("--{}: {} is no text: name the source file of a CUDA kernel",
                                 rules.option, excerpt(path)));
  }
  return text;
}

/// The source with the constants of its launch as variables, whose values stand in the PTX. The
/// qualified name ::block_x means the user's constant, and the default only if there is none.
std::string with_launch(const KernelRules& rules, const OwnSource& source,
                        const std::vector<std::string>& names) {
  std::string quoted = source.file;
  std::ranges::replace_if(
      quoted, [](char c) { return c == '"' || c == '\\' || c == '\n'; }, '_');
  std::string code = fmt::format(
      R"(#line 1 "{}"
{}
#line 1 "{}"
namespace shardstream_launch {{}}
using namespace shardstream_launch;
namespace shardstream_launch {{
constexpr long long {};
template <class F> struct form {{ static constexpr long long value = 0; }};
template <class T> constexpr bool is_input = false;
template <> constexpr bool is_input<float*> = true;
template <> constexpr bool is_input<const float*> = true;
template <class T> constexpr long long size_of = 0;
template <> constexpr long long size_of<int> = 4;
template <> constexpr long long size_of<unsigned> = 4;
template <> constexpr long long size_of<long> = 8;
template <> constexpr long long size_of<unsigned long> = 8;
template <> constexpr long long size_of<long long> = 8;
template <> constexpr long long size_of<unsigned long long> = 8;
{}}}
__device__ long long shardstream_form = shardstream_launch::form<decltype(&::{})>::value;
)",
      quoted, source.text, own_part, rules.constants, rules.forms, source.function);
  for (const std::string& name : names) {
    code += fmt::format("__device__ long long shardstream_{0} = ::{0};\n", name);
  }
  return code;
}

/// The names in "block_x = 16, block_y = 16".
std::vector<std::string> constants_of(const KernelRules& rules) {
  std::vector<std::string> names;
  for (const std::string_view each : split(rules.constants, ',')) {
    names.emplace_back(trim(each.substr(0, each.find('='))));
  }
  return names;
}

/// The value of a variable in PTX: ".global .align 8 .u64 shardstream_block_x = 16;". A variable
/// without a value is 0.
std::int64_t value_in(std::string_view ptx, const std::string& variable) {
  const std::size_t begin = ptx.find(' ' + variable);
  expect(begin != ptx.npos, "the PTX of an own kernel has the constants of its launch");
  std::string_view rest = ptx.substr(begin + 1 + variable.size());
  rest = trim(rest.substr(0, rest.find(';')));
  if (!rest.starts_with('=')) return 0;
  rest = trim(rest.substr(1));
  std::uint64_t value = 0;
  const bool is_negative = rest.starts_with('-');
  if (is_negative) rest.remove_prefix(1);
  std::from_chars(rest.data(), rest.data() + rest.size(), value);
  return is_negative ? -static_cast<std::int64_t>(value) : static_cast<std::int64_t>(value);
}

/// "product" for the symbol _Z7productPKfS0_Pf, and for the symbol product.
std::string function_of_symbol(const std::string& symbol) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status), std::free);
  const std::string name = status == 0 ? text.get() : symbol;
  return name.substr(0, name.find('('));
}

/// The symbol of the kernel in PTX: ".visible .entry _Z7productPKfS0_Pf(".
std::string symbol_in(std::string_view ptx, const std::string& function) {
  constexpr std::string_view mark = ".entry ";
  for (std::size_t i = ptx.find(mark); i != ptx.npos; i = ptx.find(mark, i + 1)) {
    const std::string_view rest = ptx.substr(i + mark.size());
    std::string symbol(trim(rest.substr(0, rest.find('('))));
    if (function_of_symbol(symbol) == function) return symbol;
  }
  throw Error(fmt::format("the PTX has no kernel {}: write it outside of namespaces", function));
}

[[noreturn]] void fail_with_log(const KernelRules& rules, const OwnSource& source,
                                std::string_view log) {
  constexpr std::size_t max_log = 4000;
  std::string text = fmt::format("--{}: NVRTC cannot compile {}", rules.option, source.file);
  if (log.find(own_part) != log.npos) {
    text += fmt::format(
        "; the kernel {} must be a function at the top level of the file, no template, and its "
        "constants must be constexpr integers there: see shardstream bench help {}",
        source.function, rules.experiment);
  }
  while (log.ends_with('\n')) log.remove_suffix(1);
  throw UsageError(
      fmt::format("{}\n{}{}", text, log.substr(0, max_log), log.size() > max_log ? "\n..." : ""));
}

/// Throws UsageError if the launch is impossible on every GPU.
void check_launch_of(const KernelRules& rules, const OwnKernel& kernel,
                     const std::map<std::string, std::int64_t>& values) {
  const auto fail = [&](const std::string& fault) {
    throw UsageError(fmt::format("--{}: {}: {}: see shardstream bench help {}", rules.option,
                                 kernel.source.rung(), fault, rules.experiment));
  };
  constexpr std::int64_t max_threads = 1024, max_value = 1 << 20;
  if (values.at("form") == 0) {
    fail(fmt::format("its parameters do not fit, they must be {}", rules.parameters));
  }
  for (const auto& [name, value] : values) {
    const bool may_be_zero = name == "blocks" || name == "one_launch" || name == "shared_bytes";
    if (value < (may_be_zero ? 0 : 1) || value > max_value) {
      fail(fmt::format("{} is {}, which is not in {}..{}", name, value, may_be_zero ? 0 : 1,
                       max_value));
    }
  }
  const auto block_y = values.find("block_y");
  const std::int64_t threads =
      values.at("block_x") * (block_y == values.end() ? 1 : block_y->second);
  if (threads > max_threads) {
    fail(fmt::format("a block has {} threads, and at most {} are possible", threads, max_threads));
  }
  const auto per_thread = values.find("per_thread");
  if (per_thread != values.end() && threads * per_thread->second < 2) {
    fail("block_x times per_thread is 1, so that a launch would add nothing");
  }
}

}  // namespace

const KernelRules* rules_of(std::string_view experiment) {
  const auto* const found = std::ranges::find(the_rules, experiment, &KernelRules::experiment);
  return found == the_rules.end() ? nullptr : found;
}

OwnSource read_own_kernel(const KernelRules& rules, const std::string& option) {
  std::string path = option, wanted;
  std::error_code ignored;
  if (const std::size_t colon = option.rfind(':');
      colon != option.npos && !std::filesystem::exists(option, ignored)) {
    path = option.substr(0, colon);
    wanted = option.substr(colon + 1);
  }
  OwnSource source{std::filesystem::path(path).filename().string(), text_of_file(rules, path), {}};
  std::vector<Found> found = kernels_in(source.text);
  const std::string names = join(found, ", ", [](const Found& each) { return each.function; });
  const auto fail = [&](const std::string& fault) {
    throw UsageError(fmt::format("--{}: {} {}", rules.option, excerpt(path), fault));
  };
  if (found.empty()) {
    fail(fmt::format("has no function with __global__: see shardstream bench help {}",
                     rules.experiment));
  }
  if (!wanted.empty()) {
    std::erase_if(found, [&](const Found& each) { return each.function != wanted; });
    if (found.empty()) {
      fail(fmt::format("has no kernel {}: it has {}", excerpt(wanted), printable(names)));
    }
  }
  if (found.size() > 1) {
    fail(fmt::format("has the kernels {}: name one, as in {}:{}", printable(names), printable(path),
                     found.front().function));
  }
  source.function = found.front().function;
  source.line = found.front().line;
  return source;
}

OwnKernel own_kernel(const KernelRules& rules, const OwnSource& source, int capability) {
  std::vector<std::string> names = constants_of(rules);
  OwnKernel kernel{source, with_launch(rules, source, names), {}, {}, {}};
  const machine::Targets targets =
      machine::targets_for(machine::capabilities_of_nvrtc(), capability);
  try {
    kernel.ptx =
        machine::compile(kernel.code, machine::Code::ptx, targets.ptx, machine::OwnCache::allowed);
  } catch (const machine::SourceError& error) {
    fail_with_log(rules, source, error.log());
  }
  names.emplace_back("form");
  std::map<std::string, std::int64_t> values;
  for (const std::string& name : names) values[name] = value_in(kernel.ptx, "shardstream_" + name);
  check_launch_of(rules, kernel, values);
  for (const auto& [name, value] : values) {
    kernel.constants[name] = static_cast<std::uint32_t>(value);
  }
  kernel.symbol = symbol_in(kernel.ptx, source.function);
  return kernel;
}

std::optional<OwnKernel> own_kernel_of(Bench& bench, std::string_view experiment, int capability) {
  const KernelRules& rules = *rules_of(experiment);
  const std::string option = bench.options().text(rules.option);
  if (option.empty()) return std::nullopt;
  const OwnSource source = read_own_kernel(rules, option);
  try {
    return own_kernel(rules, source, capability);
  } catch (const NotAvailable& error) {
    bench.note(fmt::format("{} is not measured: {}.", source.rung(), error.what()));
    return std::nullopt;
  }
}

std::string check_own_kernel(std::string_view experiment, const Options& options) {
  const KernelRules* const rules = rules_of(experiment);
  if (rules == nullptr || options.text(rules->option).empty()) return {};
  const OwnSource source = read_own_kernel(*rules, options.text(rules->option));
  constexpr int hopper = 90;
  try {
    const std::vector<int> known = machine::capabilities_of_nvrtc();
    const int capability = known.back() < hopper ? known.back() : std::max(hopper, known.front());
    (void)own_kernel(*rules, source, capability);
    return fmt::format("{} was compiled for compute capability {}.{} and not run: it needs a GPU",
                       source.rung(), capability / 10, capability % 10);
  } catch (const NotAvailable& error) {
    return fmt::format("{} was read and not compiled: {}", source.rung(), error.what());
  }
}

std::string own_kernel_help(std::string_view experiment) {
  const KernelRules* const rules = rules_of(experiment);
  if (rules == nullptr) return {};
  std::string text =
      "\nYour own kernel\n" +
      wrapped(
          "  ",
          fmt::format(
              "--{} mine.cu adds the kernel of a file to the table, after all other rungs: with "
              "the same data, check and flags (C++20, -fmad=false: write fmaf(a, b, c) for a "
              "multiply-add). mine.cu:NAME chooses one of several kernels. The parameters are "
              "{}. {} A wrong answer or a failed launch is a note below the table, with the "
              "exit code 3 or 1, and the other rungs keep their rows. An access outside the "
              "arrays ends the CUDA context, so that no later experiment can run; "
              "compute-sanitizer names its line. The file may include the headers of the CUDA "
              "toolkit. A complete file:",
              rules->option, rules->parameters, rules->help),
          2) +
      '\n';
  const auto texts = source_texts();
  const auto example = std::ranges::find(texts, rules->example, &SourceText::path);
  expect(example != texts.end(), "the build embeds the examples of own kernels");
  for (std::string_view rest = example->text; !rest.empty();) {
    const std::size_t end = std::min(rest.find('\n'), rest.size() - 1);
    text += (end == 0 ? "" : "  ") + std::string(rest.substr(0, end + 1));
    rest.remove_prefix(end + 1);
  }
  return text;
}

}  // namespace shardstream::experiments::ladders
