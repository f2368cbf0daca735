#include <fmt/format.h>

#include <algorithm>

#include "cli/commands.hpp"
#include "core/error.hpp"
#include "core/log.hpp"
#include "core/options/row.hpp"
#include "core/text.hpp"

namespace shardstream::cli {
namespace {

/// The values among which a user chooses; empty if there are others.
std::vector<std::string_view> choices(const OptionRow& row) {
  if (row.kind == OptionKind::flag) return {"true", "false"};
  const bool chooses = row.kind == OptionKind::choice || row.kind == OptionKind::list;
  return chooses && !row.range.empty() ? split(row.range, '|') : std::vector<std::string_view>{};
}

std::string with_dashes(const Command& command) {
  std::string words;
  const auto add = [&](std::string_view word) { words += fmt::format(" --{}", word); };
  std::ranges::for_each(command.switches, add);
  std::ranges::for_each(command.settings, add);
  for (const OptionRow& row : command.options()) add(row.key);
  return words + " --help";
}

/// The values of options in a command, as cases of a shell.
std::string value_cases(const Command& command) {
  std::string cases;
  for (const OptionRow& row : command.options()) {
    const auto of_row = choices(row);
    if (of_row.empty()) continue;
    cases += fmt::format("        --{}) values='{}' ;;\n", row.key, join(of_row, " "));
  }
  return cases.empty() ? "" : fmt::format("      case $option in\n{}      esac\n", cases);
}

std::string for_bash() {
  std::string names, cases;
  for (const Command* command : commands()) {
    names += fmt::format(" {}", command->name);
    cases += fmt::format("    {})\n      words='{}'\n      options='{}'\n{}      ;;\n",
                         command->name, join(command->words(), " "),
                         with_dashes(*command).substr(1), value_cases(*command));
  }
  return fmt::format(R"(# Completion of shardstream in bash; made by: shardstream completion bash
_shardstream() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} option=${{COMP_WORDS[COMP_CWORD - 1]}}
  local words='' options='' values='' before=''
  COMPREPLY=()
  if ((COMP_CWORD == 1)); then
    mapfile -t COMPREPLY < <(compgen -W '{} --help --version' -- "$current")
    return
  fi
  if [[ $current == '=' ]]; then current=; fi
  if [[ $option == '=' ]]; then option=${{COMP_WORDS[COMP_CWORD - 2]}}; fi
  case ${{COMP_WORDS[1]}} in
{}  esac
  if [[ -n $values ]]; then
    if [[ $current == *,* ]]; then before=${{current%,*}},; fi  # the last value of a list
    mapfile -t COMPREPLY < <(compgen -P "$before" -W "$values" -- "${{current##*,}}")
    return
  fi
  if [[ $current == -* ]]; then words=$options; fi
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
  if [[ $current != -* ]]; then
    mapfile -t -O "${{#COMPREPLY[@]}}" COMPREPLY < <(compgen -f -- "$current")
  fi
}}
complete -o filenames -F _shardstream shardstream
)",
                     names.substr(1), cases);
}

/// A sentence inside the brackets of _arguments.
std::string explained(std::string_view sentence) {
  std::string result;
  for (const char c : sentence) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') result += '\\';
    result += c;
  }
  return result;
}

std::string for_zsh() {
  std::string names, cases;
  for (const Command* command : commands()) {
    names += fmt::format("    {}\n",
                         shell_line({fmt::format("{}:{}", command->name, command->summary)}));
    std::string specifications;
    const auto add = [&](const std::string& text) {
      specifications += fmt::format("        {} \\\n", shell_line({text}));
    };
    for (const auto name : command->switches) add(fmt::format("--{}", name));
    for (const auto name : command->settings) add(fmt::format("--{}=:{}:_files", name, name));
    for (const OptionRow& row : command->options()) {
      const auto of_row = choices(row);
      const std::string action = of_row.empty() ? "_files" : fmt::format("({})", join(of_row, " "));
      add(fmt::format("--{}=[{}]:{}:{}", row.key, explained(row.sentence), options::value_name(row),
                      action));
    }
    cases += fmt::format(
        "    {})\n      _arguments -S \\\n{}        {}\n      ;;\n", command->name, specifications,
        shell_line(
            {fmt::format("*:name or file:_shardstream_words {}", join(command->words(), " "))}));
  }
  return fmt::format(R"(#compdef shardstream
# Completion of shardstream in zsh; made by: shardstream completion zsh
_shardstream_words() {{
  compadd -- "$@"
  _files
}}
_shardstream() {{
  local -a commands=(
{}  )
  if ((CURRENT == 2)); then
    _describe command commands
    return
  fi
  local command=$words[2]
  shift words
  ((CURRENT--))
  case $command in
{}  esac
}}
_shardstream "$@"
)",
                     names, cases);
}

std::string script_for(std::string_view shell) {
  if (shell == "bash") return for_bash();
  if (shell == "zsh") return for_zsh();
  throw UsageError(
      fmt::format("completion: there is none for {}: name bash or zsh", excerpt(shell)));
}

int completion(const Arguments& arguments, const char* const*) {
  if (arguments.size() != 1) {
    throw UsageError("completion needs one shell: shardstream completion bash, or zsh");
  }
  print_output(script_for(arguments[0]));
  return static_cast<int>(ExitCode::done);
}

std::string completion_help(const Arguments&) {
  return R"(shardstream completion bash|zsh

Prints a script that completes commands, names, options and their values.

  source <(shardstream completion bash)                       in ~/.bashrc
  shardstream completion zsh >~/.zfunc/_shardstream           with fpath+=~/.zfunc before compinit
)";
}

}  // namespace

extern const Command about_completion = {.name = "completion",
                                         .arguments = "bash|zsh",
                                         .summary = "completes this program's words in a shell",
                                         .words =
                                             [] {
                                               return std::vector<std::string_view>{"bash", "zsh"};
                                             },
                                         .help = completion_help,
                                         .run = completion};

}  // namespace shardstream::cli
