#include <fmt/format.h>

#include <algorithm>

#include "cli/commands.hpp"
#include "core/error.hpp"
#include "core/log.hpp"
#include "core/options/row.hpp"
#include "core/text.hpp"
#include "runtime/provenance.hpp"

namespace shardstream::cli {
namespace {

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

std::string man_page() {
  std::string descriptions, options;
  std::vector<std::string_view> seen;
  for (const Command* command : commands()) {
    descriptions += fmt::format(".TP\n.B {}\n{}.\n", command->name, roff(command->summary));
    if (const auto names = command->words(); !names.empty()) {
      descriptions += fmt::format("Names: {}.\n", roff(join(names, ", ")));
    }
    std::string more;
    for (const auto words : {command->switches, command->settings}) {
      for (const auto word : words) more += fmt::format("{}--{}", more.empty() ? "" : ", ", word);
    }
    if (!more.empty()) descriptions += fmt::format("Its own words: {}.\n", roff(more));
    for (const OptionRow& row : command->options()) {
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
                     roff(fmt::format("shardstream {}", runtime::version())), descriptions,
                     options);
}

int man(const Arguments& arguments, const char* const*) {
  if (!arguments.empty()) {
    throw UsageError(
        fmt::format("man takes no {}: its page has all commands", excerpt(arguments[0])));
  }
  print_output(man_page());
  return static_cast<int>(ExitCode::done);
}

std::string man_help(const Arguments&) {
  return R"(shardstream man | man -l -

Prints the man page, which has all commands and options.
)";
}

}  // namespace

extern const Command about_man = {.name = "man",
                                  .arguments = "| man -l -",
                                  .summary = "prints this program's man page",
                                  .help = man_help,
                                  .run = man};

}  // namespace shardstream::cli
