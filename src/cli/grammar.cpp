#include "cli/grammar.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "cli/commands.hpp"
#include "core/error.hpp"
#include "core/options/row.hpp"
#include "core/text.hpp"
#include "experiments/catalogue.hpp"
#include "runtime/provenance.hpp"
#include "workloads/registry.hpp"

namespace shardstream::cli {
namespace {

/// The rows whose key or section is in `own`.
std::vector<OptionRow> only(const OptionTable& table, std::span<const std::string_view> own) {
  std::vector<OptionRow> rows;
  std::ranges::copy_if(table.rows(), std::back_inserter(rows), [&](const OptionRow& row) {
    const std::string_view section = row.key.substr(0, row.key.find('.'));
    return std::ranges::any_of(own, [&](auto name) { return name == row.key || name == section; });
  });
  return rows;
}

std::vector<std::string_view> names_of_workloads() {
  std::vector<std::string_view> names;
  for (const auto& workload : workloads::all()) names.push_back(workload.name);
  return names;
}

std::vector<std::string_view> names_of_experiments() {
  std::vector<std::string_view> names = {"all", "help"};
  for (const auto& group : experiments::groups()) names.push_back(group.name);
  for (const auto* experiment : experiments::all()) names.push_back(experiment->name);
  return names;
}

std::vector<OptionRow> options_of_all_experiments() {
  std::vector<std::string_view> own(options_of_bench.begin(), options_of_bench.end());
  for (const auto* experiment : experiments::all()) own.push_back(experiment->name);
  return only(bench_table(), own);
}

/// The values among which a user chooses; empty if there are others.
std::vector<std::string_view> choices(const OptionRow& row) {
  if (row.kind == OptionKind::flag) return {"true", "false"};
  const bool chooses = row.kind == OptionKind::choice || row.kind == OptionKind::list;
  return chooses && !row.range.empty() ? split(row.range, '|') : std::vector<std::string_view>{};
}

// ---------------------------------------------------------------- completion

std::string with_dashes(const Grammar& grammar) {
  std::string words;
  const auto add = [&](std::string_view word) { words += fmt::format(" --{}", word); };
  std::ranges::for_each(grammar.switches, add);
  std::ranges::for_each(grammar.settings, add);
  for (const OptionRow& row : grammar.options) add(row.key);
  return words + " --help";
}

/// The values of options in a command, as cases of a shell.
std::string value_cases(const Grammar& grammar) {
  std::string cases;
  for (const OptionRow& row : grammar.options) {
    const auto of_row = choices(row);
    if (of_row.empty()) continue;
    cases += fmt::format("        --{}) values='{}' ;;\n", row.key, join(of_row, " "));
  }
  return cases.empty() ? "" : fmt::format("      case $option in\n{}      esac\n", cases);
}

std::string for_bash(const std::vector<Grammar>& all) {
  std::string commands, cases;
  for (const Grammar& grammar : all) {
    commands += fmt::format(" {}", grammar.name);
    cases +=
        fmt::format("    {})\n      words='{}'\n      options='{}'\n{}      ;;\n", grammar.name,
                    join(grammar.words, " "), with_dashes(grammar).substr(1), value_cases(grammar));
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
                     commands.substr(1), cases);
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

std::string for_zsh(const std::vector<Grammar>& all) {
  std::string commands, cases;
  for (const Grammar& grammar : all) {
    commands +=
        fmt::format("    {}\n", shell_line({fmt::format("{}:{}", grammar.name, grammar.summary)}));
    std::string specifications;
    const auto add = [&](const std::string& text) {
      specifications += fmt::format("        {} \\\n", shell_line({text}));
    };
    for (const auto name : grammar.switches) add(fmt::format("--{}", name));
    for (const auto name : grammar.settings) add(fmt::format("--{}=:{}:_files", name, name));
    for (const OptionRow& row : grammar.options) {
      const auto of_row = choices(row);
      const std::string action = of_row.empty() ? "_files" : fmt::format("({})", join(of_row, " "));
      add(fmt::format("--{}=[{}]:{}:{}", row.key, explained(row.sentence), options::value_name(row),
                      action));
    }
    cases += fmt::format(
        "    {})\n      _arguments -S \\\n{}        {}\n      ;;\n", grammar.name, specifications,
        shell_line(
            {fmt::format("*:name or file:_shardstream_words {}", join(grammar.words, " "))}));
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
                     commands, cases);
}

// ---------------------------------------------------------------- the man page

/// Text for man(7): no character of it acts as a command.
std::string roff(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '\\') {
      result += "\\e";
    } else if (c == '-') {
      result += "\\-";
    } else if ((c == '.' || c == '\'') && (result.empty() || result.back() == '\n')) {
      result += fmt::format("\\&{}", c);
    } else {
      result += c;
    }
  }
  return result;
}

std::string of_option(const OptionRow& row) {
  const std::string range = options::describe(row);
  return fmt::format(".TP\n.BI \\-\\-{} \" {}\"\n{}\nDefault: {}{}.\n", roff(row.key),
                     options::value_name(row), roff(row.sentence),
                     row.fallback.empty() ? "none" : roff(row.fallback),
                     range == "text" ? "" : "; " + roff(range));
}

}  // namespace

std::vector<Grammar> grammars() {
  constexpr std::array<std::string_view, 5> sections_of_info = {"launch", "device", "comm", "input",
                                                                "pipeline"};
  return {
      {"run", "runs one workload on all ranks", switches_of_run, settings_of_run,
       all_options().rows(), names_of_workloads()},
      {"scale", "runs a scaling study", switches_of_scale, settings_of_scale, scale_table().rows(),
       names_of_workloads()},
      {"report",
       "evaluates scaling studies and experiments",
       switches_of_report,
       settings_of_report,
       report_options().rows(),
       {}},
      {"compare",
       "tells whether runs became slower",
       switches_of_compare,
       settings_of_compare,
       {},
       {}},
      {"bench", "measures CUDA techniques on your GPUs", switches_of_bench, settings_of_bench,
       options_of_all_experiments(), names_of_experiments()},
      {"generate",
       "writes a synthetic HDF5 data set",
       switches_of_generate,
       {},
       only(generate_options(), options_of_generate),
       {}},
      {"info",
       "shows ranks, CPUs, GPUs and problems",
       switches_of_info,
       {},
       only(all_options(), sections_of_info),
       {}},
      {"completion", "completes this program's words in a shell", {}, {}, {}, {"bash", "zsh"}},
      {"man", "prints this program's man page", {}, {}, {}, {}},
  };
}

std::string completion_of(std::string_view shell) {
  if (shell == "bash") return for_bash(grammars());
  if (shell == "zsh") return for_zsh(grammars());
  throw UsageError(
      fmt::format("completion: there is none for {}: name bash or zsh", excerpt(shell)));
}

std::string man_page() {
  std::string commands, options;
  std::vector<std::string_view> seen;
  for (const Grammar& grammar : grammars()) {
    commands += fmt::format(".TP\n.B {}\n{}.\n", grammar.name, roff(grammar.summary));
    if (!grammar.words.empty()) {
      commands += fmt::format("Names: {}.\n", roff(join(grammar.words, ", ")));
    }
    std::string more;
    for (const auto words : {grammar.switches, grammar.settings}) {
      for (const auto word : words) more += fmt::format("{}--{}", more.empty() ? "" : ", ", word);
    }
    if (!more.empty()) commands += fmt::format("Its own words: {}.\n", roff(more));
    for (const OptionRow& row : grammar.options) {
      if (std::ranges::find(seen, row.key) != seen.end()) continue;
      seen.push_back(row.key);
      options += of_option(row);
    }
  }
  return fmt::format(R"(.TH SHARDSTREAM 1 "" "{}"
.SH NAME
shardstream \- statistics and matrix products of data beyond GPU memory, on one GPU or many
.SH SYNOPSIS
.B shardstream
.I COMMAND
.RI [ NAME | FILE ]...
.RI [ OPTIONS ]
.PP
.B mpirun \-np
.I N
.B shardstream run
.I WORKLOAD
.RI [ OPTIONS ]
.SH COMMANDS
.B shardstream
.I COMMAND
.B \-\-help
explains a command with examples.
{}.SH OPTIONS
Options come from the command line, else from the environment, else from an INI file, else from
the defaults.
{}.SH ENVIRONMENT
.TP
.B SHARDSTREAM_SECTION_NAME
The option section.name, for example SHARDSTREAM_OUTPUT_FILE.
.SH EXIT STATUS
0 done; 1 failed after work had started; 2 fix the command or the input; 3 the result did not pass
its verification; 4 compare cannot tell; 5 compare found a point slower; 75 stopped with a
checkpoint: run the same command again.
)",
                     roff(fmt::format("shardstream {}", runtime::version())), commands, options);
}

int completion(const Arguments& arguments, const char* const*) {
  if (arguments.size() != 1) {
    throw UsageError("completion needs one shell: shardstream completion bash, or zsh");
  }
  print_output(completion_of(arguments[0]));
  return static_cast<int>(ExitCode::done);
}

int man(const Arguments& arguments, const char* const*) {
  if (!arguments.empty()) {
    throw UsageError(
        fmt::format("man takes no {}: its page has all commands", excerpt(arguments[0])));
  }
  print_output(man_page());
  return static_cast<int>(ExitCode::done);
}

std::string completion_help(const Arguments&) {
  return R"(shardstream completion bash|zsh

Prints a script that completes commands, names, options and their values.

  source <(shardstream completion bash)                       in ~/.bashrc
  shardstream completion zsh >~/.zfunc/_shardstream           with fpath+=~/.zfunc before compinit
)";
}

std::string man_help(const Arguments&) {
  return R"(shardstream man | man -l -

Prints the man page, which has all commands and options.
)";
}

}  // namespace shardstream::cli
