#include "report/page/page.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.hpp"
#include "core/text.hpp"
#include "io/output/contents.hpp"
#include "report/page/experiments.hpp"
#include "report/page/figures/together.hpp"
#include "report/page/gnuplot.hpp"
#include "report/page/sections.hpp"

namespace shardstream::report {
namespace {

using page::DetailedStudy;
using page::Figure;

/// The maximum number of studies with figures: browsers cannot open pages with thousands of
/// pictures.
constexpr std::size_t max_drawn_studies = 24;

/// A group of figures with its heading.
struct Group {
  std::string heading;
  std::vector<Figure> figures;
};

/// A program of the user has no phases, spans, limits and energy: their figures are left out.
std::vector<Group> groups_of(const DetailedStudy& detailed) {
  const StudyReport& study = *detailed.study;
  std::vector<Figure> parts = {page::to_result_figure(study)}, limits;
  if (!study.runs.front().is_of_program()) {
    parts.push_back(page::host_causes_figure(detailed));
    parts.push_back(page::device_causes_figure(detailed));
    parts.push_back(page::overlap_figure(detailed));
    for (Figure& figure : page::timeline_figures(detailed)) parts.push_back(std::move(figure));
    limits = {page::roofline_figure(detailed), page::energy_figure(study)};
  }
  limits.push_back(page::cost_figure(study));
  return {{"How it scales",
           {page::time_figure(study), page::speedup_figure(study), page::efficiency_figure(study),
            page::karp_flatt_figure(study), page::law_figure(study)}},
          {"Where the time goes", std::move(parts)},
          {"Limits and costs", std::move(limits)}};
}

std::string id_of(std::size_t study) {
  return fmt::format("s{}", study + 1);
}

constexpr const char* id_of_together = "together";

/// The figures of all sections, with the ids of their sections.
using Owned = std::vector<std::pair<Figure*, std::string>>;

/// Draws all figures with one start of gnuplot. Returns the reason for missing pictures, or "".
std::string draw_all(const Owned& figures) {
  std::vector<std::string> scripts;
  Owned owners;  // the figure of each script, with the prefix of its ids
  for (const auto& [figure, section] : figures) {
    for (const auto* script : {&figure->script, &figure->wide_script}) {
      if (script->empty()) continue;
      owners.emplace_back(figure, fmt::format("{}-{}-{}-", section, figure->id,
                                              script == &figure->script ? "a" : "b"));
      scripts.push_back(*script);
    }
  }
  const page::Drawing drawing = page::draw(scripts);
  for (std::size_t i = 0; i < owners.size(); ++i) {
    auto& [figure, prefix] = owners[i];
    if (drawing.pictures[i].empty()) continue;
    std::string svg = page::inlined(drawing.pictures[i], prefix);
    for (const auto& [word, text] : figure->labels) {
      const auto at = svg.find(word);
      if (at != svg.npos) svg.replace(at, word.size(), page::escape(page::without_ticks(text)));
    }
    figure->pictures.push_back(std::move(svg));
  }
  return drawing.why_not;
}

std::string section(const DetailedStudy& detailed, const std::string& title, const std::string& id,
                    const std::vector<Group>& groups, const std::string& why_not) {
  const StudyReport& study = *detailed.study;
  std::string html = fmt::format("<section id=\"{}\">\n<h2>{}</h2>\n{}{}", id, page::escape(title),
                                 page::summary(detailed), page::findings(study));
  html += "<h3>Sizes</h3>\n" + page::size_table(study);
  for (const Group& group : groups) {
    html += fmt::format("<h3>{}</h3>\n<div class=\"figures\">\n", group.heading);
    for (const Figure& figure : group.figures) {
      if (!figure.script.empty()) html += page::to_html(figure, id, why_not);
    }
    html += "</div>\n<div class=\"figures gaps\">\n";
    for (const Figure& figure : group.figures) {
      if (figure.script.empty()) html += page::to_html(figure, id, why_not);
    }
    html += "</div>\n";
  }
  html += page::methods(study);
  html += "<h3>Every launch</h3>\n" + page::raw_points(study);
  html += "<h3>Where it ran</h3>\n" + page::provenance(detailed);
  html += "<h3>Do it again</h3>\n" + page::commands(study);
  return html + "</section>\n";
}

std::string together_section(const Report& report, const std::vector<Figure>& figures,
                             const std::string& why_not) {
  if (!report.together) return {};
  std::string html = fmt::format("<section id=\"{}\">\n<h2>Together</h2>\n<p>{}</p>\n{}",
                                 id_of_together, page::escape(words_on_together(report)),
                                 page::to_html(page::grid_of(distinctions(report))));
  html += "<h3>How they scale</h3>\n<div class=\"figures\">\n";
  for (const Figure& figure : figures) html += page::to_html(figure, id_of_together, why_not);
  return html + "</div>\n<h3>Side by side</h3>\n" +
         page::to_html(page::grid_of(side_by_side(report))) + "</section>\n";
}

std::string unreadable(const Report& report) {
  if (report.unreadable.empty()) return {};
  page::Grid grid{{"file", "why it is not in this report"}};
  for (const ExcludedFile& file : report.unreadable) {
    grid.rows.push_back({file.path.string(), file.reason});
  }
  return fmt::format("<section id=\"unreadable\">\n<h2>Unreadable files</h2>\n{}</section>\n",
                     page::to_html(grid));
}

std::string head(const Report& report) {
  std::string title = report.studies.empty() ? "Experiments" : "Scaling report";
  if (report.studies.size() == 1) title += ": " + report.studies.front().name;
  return fmt::format(
      "{}\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
      "style-src 'unsafe-inline'; img-src data:\">\n"
      "<link rel=\"icon\" href=\"data:,\">\n"
      "<title>{}</title>\n<style>\n{}</style>\n</head>\n<body>\n<main>\n",
      io::page_start, page::escape(title), page::style_sheet());
}

std::string opening(const Report& report, const std::string& why_not) {
  std::size_t launches = 0;
  for (const StudyReport& study : report.studies) launches += study.runs.size();
  std::string contents;
  if (!report.studies.empty() || report.benches.empty()) {
    contents = fmt::format("{} from {}", counted(report.studies.size(), "section"),
                           counted(launches, "launch"));
  }
  if (!report.benches.empty()) {
    contents += fmt::format("{}{} of experiments", contents.empty() ? "" : ", ",
                            counted(report.benches.size(), "file"));
  }
  std::string html = fmt::format(
      "<header>\n<p class=\"kicker\">shardstream</p>\n<h1>{}</h1>\n<p class=\"lead\">{}.</p>\n",
      report.studies.empty() ? "Experiments" : "Scaling report", contents);
  if (!why_not.empty()) {
    html += fmt::format("<p class=\"alert\">Figures are missing: {}. All tables are there.</p>\n",
                        page::escape(why_not));
  }
  html += "</header>\n";
  return report.studies.size() > 1 ? html + page::overview(report) : html;
}

/// All sections of a report with their figures: of the first studies, and of all files of bench.
struct Drawn {
  std::vector<DetailedStudy> studies;
  std::vector<std::vector<Group>> groups;
  std::vector<std::vector<Figure>> benches;
  std::vector<Figure> together;
  std::string why_no_pictures;  ///< as Page's
};

Drawn draw_report(const Report& report, const Lessons& lessons) {
  Drawn drawn;
  for (const StudyReport& study : report.studies) {
    drawn.studies.push_back(page::with_details(study));
    if (drawn.groups.size() < max_drawn_studies) {
      drawn.groups.push_back(groups_of(drawn.studies.back()));
    }
  }
  for (const BenchFile& bench : report.benches) {
    drawn.benches.push_back(page::experiment_figures(bench, lessons));
  }
  if (report.together) drawn.together = page::together_figures(report);
  Owned figures;
  for (Figure& figure : drawn.together) figures.emplace_back(&figure, id_of_together);
  for (std::size_t i = 0; i < drawn.groups.size(); ++i) {
    for (Group& group : drawn.groups[i]) {
      for (Figure& figure : group.figures) figures.emplace_back(&figure, id_of(i));
    }
  }
  for (std::size_t i = 0; i < drawn.benches.size(); ++i) {
    for (Figure& figure : drawn.benches[i]) figures.emplace_back(&figure, page::id_of_bench(i + 1));
  }
  drawn.why_no_pictures = draw_all(figures);
  return drawn;
}

}  // namespace

std::vector<NamedText> figure_files(const Report& report) {
  const Drawn drawn = draw_report(report, no_lesson);
  if (!drawn.why_no_pictures.empty()) {
    throw UsageError(fmt::format("--svg: figures are missing: {}", drawn.why_no_pictures));
  }
  std::vector<NamedText> files;
  const auto add = [&files](const std::string& id, const Figure& figure,
                            const std::string& source) {
    if (figure.pictures.empty()) return;
    files.push_back({fmt::format("{}-{}.svg", id, figure.id), page::to_svg(figure, source)});
  };
  for (const Figure& figure : drawn.together) {
    add(id_of_together, figure, fmt::format("{} studies side by side", report.studies.size()));
  }
  for (std::size_t i = 0; i < drawn.groups.size(); ++i) {
    const StudyReport& study = *drawn.studies[i].study;
    const std::string source = fmt::format("{} on {}", study.name, study.device);
    for (const Group& group : drawn.groups[i]) {
      for (const Figure& figure : group.figures) add(id_of(i), figure, source);
    }
  }
  for (std::size_t i = 0; i < drawn.benches.size(); ++i) {
    for (const Figure& figure : drawn.benches[i]) {
      add(page::id_of_bench(i + 1), figure, report.benches[i].device);
    }
  }
  return files;
}

Page to_page(const Report& report, const Lessons& lessons) {
  const Drawn drawn = draw_report(report, lessons);
  const auto& [detailed, groups, benches, together, why_no_pictures] = drawn;
  Page made;
  made.why_no_pictures = why_no_pictures;
  std::string why = made.why_no_pictures;
  if (report.studies.size() > max_drawn_studies) {
    why += fmt::format("{}only the first {} sections have figures", why.empty() ? "" : "; ",
                       max_drawn_studies);
  }
  made.html = head(report) + opening(report, why) +
              together_section(report, together, made.why_no_pictures);
  for (std::size_t i = 0; i < detailed.size(); ++i) {
    const std::vector<Group> none;
    made.html += section(detailed[i], page::title_of(report, i), id_of(i),
                         i < groups.size() ? groups[i] : none, made.why_no_pictures);
  }
  for (std::size_t i = 0; i < benches.size(); ++i) {
    made.html += page::bench_section(report.benches[i], benches[i], i + 1, made.why_no_pictures);
  }
  made.html += unreadable(report) + page::page_command(report);
  if (!report.studies.empty()) made.html += page::terms();
  made.html += "</main>\n</body>\n</html>\n";
  return made;
}

}  // namespace shardstream::report
