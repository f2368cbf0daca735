// The table of a study for an application for computing time, in Markdown and LaTeX.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "core/text.hpp"
#include "report/formats.hpp"
#include "report/words.hpp"

namespace shardstream::report {
namespace {

/// The cells of a study; the first row is the header.
using Cells = std::vector<std::vector<std::string>>;

std::string text_of(double value) {
  return std::isfinite(value) ? fmt::format("{:.3g}", value) : "-";
}

Cells cells_of(const StudyReport& study) {
  bool has_gpus = false;
  for (const SizeFacts& facts : study.facts) has_gpus = has_gpus || facts.gpus > 0;
  Cells cells = {{"ranks", "nodes", "time [s]", study.is_strong() ? "speed-up" : "scaled speed-up",
                  "efficiency", "node-hours"}};
  if (has_gpus) {
    cells[0].insert(cells[0].begin() + 2, "GPUs");
    cells[0].emplace_back("GPU-hours");
  }
  for (std::size_t i = 0; i < study.table.sizes.size(); ++i) {
    const study::Size& size = study.table.sizes[i];
    const SizeFacts& facts = study.facts[i];
    std::vector<std::string>& row =
        cells.emplace_back(std::vector{fmt::format("{}", size.ranks), text_of(facts.nodes)});
    if (has_gpus) row.push_back(text_of(facts.gpus));
    row.insert(row.end(), {with_interval(size.seconds), with_interval(size.speedup),
                           with_interval(size.efficiency), text_of(facts.cost.node_hours)});
    if (has_gpus) row.push_back(text_of(facts.cost.gpu_hours));
  }
  return cells;
}

/// The contents of the table, in sentences.
std::string caption_of(const StudyReport& study) {
  std::string text = fmt::format(
      "{} scaling of {} on {}, {}. Times are of one repetition, with 95 % intervals over launches; "
      "hours are of one launch, with its start. ",
      study.is_strong() ? "Strong" : "Weak", study.workload, study.device,
      counted(study.runs.size(), "launch"));
  const std::string law = words_on_law(study);
  for (const std::string_view line : split(law, '\n')) {
    if (!line.empty()) text += fmt::format("{} ", line);
  }
  if (const std::string cost = words_of(study.cost); !cost.empty()) {
    text += fmt::format("The whole study took {}.", cost);
  }
  return text;
}

std::string for_latex(const std::string& text) {
  std::string result;
  for (const char c : printable(text)) {
    if (std::string_view("#$%&_{}").find(c) != std::string_view::npos) {
      result += fmt::format("\\{}", c);
    } else if (c == '\\') {
      result += "\\textbackslash{}";
    } else if (c == '~' || c == '^') {
      result += fmt::format("\\{}{{}}", c);
    } else {
      result += c;
    }
  }
  return result;
}

}  // namespace

std::string to_markdown(const Report& report) {
  std::string text;
  for (const StudyReport& study : report.studies) {
    const Cells cells = cells_of(study);
    text +=
        fmt::format("**{}.** {}\n\n", for_markdown(study.name), for_markdown(caption_of(study)));
    for (std::size_t i = 0; i < cells.size(); ++i) {
      text += fmt::format("| {} |\n", join(cells[i], " | "));
      if (i > 0) continue;
      text += '|';
      for (std::size_t column = 0; column < cells[0].size(); ++column) text += " ---: |";
      text += '\n';
    }
    text += '\n';
  }
  return text;
}

std::string to_latex(const Report& report) {
  std::string text;
  for (const StudyReport& study : report.studies) {
    const Cells cells = cells_of(study);
    text += fmt::format(
        "\\begin{{table}}\n\\centering\n\\caption{{{}: {}}}\n\\begin{{tabular}}{{{}}}\n",
        for_latex(study.name), for_latex(caption_of(study)), std::string(cells[0].size(), 'r'));
    for (std::size_t i = 0; i < cells.size(); ++i) {
      text +=
          fmt::format("{} \\\\\n{}", join(cells[i], " & ", for_latex), i == 0 ? "\\hline\n" : "");
    }
    text += "\\end{tabular}\n\\end{table}\n";
  }
  return text;
}

}  // namespace shardstream::report
