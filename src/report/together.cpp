#include "report/together.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <map>
#include <set>
#include <string_view>

#include "core/error.hpp"
#include "core/text.hpp"
#include "core/units.hpp"
#include "report/formats.hpp"
#include "report/studies.hpp"
#include "report/words.hpp"
#include "study_folder/study_ini.hpp"

namespace shardstream::report {
namespace {

namespace fs = std::filesystem;
/// A fact of a study: an option, or its workload, device or commit.
struct Fact {
  std::string value;
  bool is_chosen = true;  ///< false for the default of an option
  /// Replaces the value in comparisons, if it is not empty.
  std::string compared = {};
};
using Facts = std::map<std::string, Fact>;

bool is_option(const std::string& key) {
  return key.find('.') != key.npos;
}

/// Whether the key is of a section that says how and where the program runs.
bool is_of_execution(const std::string& key) {
  constexpr std::array<std::string_view, 4> sections = {"comm.", "device.", "launch.", "pipeline."};
  return std::ranges::any_of(sections,
                             [&](std::string_view section) { return key.starts_with(section); });
}

/// The names, data sets and sizes of the files of an input. Folders differ between machines.
std::string files_of(const RunFile& run, const std::string& option) {
  std::string files;
  for (const io::InputFile& file : run.inputs) {
    if (file.option != option) continue;
    files += fmt::format("{}:{} {}\n", file.path.filename().string(), file.dataset, file.size);
  }
  return files;
}

/// The options in the file of the run's study; empty if there is none, or if it cannot be read,
/// which the report says elsewhere.
study_folder::StoredOptions options_of_study(const RunFile& run) {
  if (run.study.name.empty()) return {};
  try {
    auto options = study_folder::read_options(run.path.parent_path());
    const auto name = options.find("study.name");
    if (name != options.end() && name->second == run.study.name) return options;
  } catch (const UsageError&) {
    return {};
  }
  return {};
}

/// The options that the user has given. `scale` adds options to the commands of its launches, so
/// the file of the study counts if there is one.
std::set<std::string> chosen_options(const RunFile& run) {
  std::set<std::string> chosen;
  for (const auto& [key, value] : options_of_study(run)) chosen.insert(key);
  if (!chosen.empty()) return chosen;
  for (const auto& [key, origin] : run.options.origins) {
    if (origin == "default" || (!run.study.name.empty() && is_of_execution(key))) continue;
    chosen.insert(key);
  }
  return chosen;
}

/// The facts of a study that may tell it from others, most telling first. Facts of a later group
/// count only if all earlier ones are the same in all studies.
std::vector<Facts> fact_groups_of(const StudyReport& study) {
  const RunFile& run = *study.runs_on(study.table.anchor).front();
  const std::set<std::string> chosen = chosen_options(run);
  Facts what{{"workload", {study.workload}},
             {"device", {study.device}},
             {"commit", {run.provenance.commit.substr(0, 12)}}};
  Facts how;
  for (const auto& [key, value] : options_of_result(run)) {
    what[key] = {value, chosen.contains(key)};
  }
  for (const io::InputFile& file : run.inputs) {
    what[file.option] = {run.options.text(file.option), true, files_of(run, file.option)};
  }
  for (const auto& [key, value] : run.options.all) {
    if (!is_of_execution(key)) continue;
    what[key] = {value, chosen.contains(key)};
    how[key] = {value,
                run.options.origins.contains(key) && run.options.origins.at(key) != "default"};
  }
  return {what, how};
}

/// Whether both texts are the same quantity, such as 2^20 and 1048576.
template <class Number>
bool are_equal(Number (*parse)(std::string_view), const std::string& a, const std::string& b) {
  try {
    return parse(a) == parse(b);
  } catch (const UsageError&) {
    return false;
  }
}

bool are_equal(const Fact& a, const Fact& b) {
  if (!a.compared.empty() || !b.compared.empty()) return a.compared == b.compared;
  return a.value == b.value || are_equal(parse_count, a.value, b.value) ||
         are_equal(parse_number, a.value, b.value) || are_equal(parse_size, a.value, b.value) ||
         are_equal(parse_duration, a.value, b.value);
}

/// Whether a fact differs between studies; null stands for a study without it, such as one of an
/// older version. Defaults do not count, since they follow from other facts.
bool differs(const std::vector<const Fact*>& facts) {
  const bool is_chosen = std::ranges::any_of(
      facts, [](const Fact* each) { return each != nullptr && each->is_chosen; });
  return is_chosen && std::ranges::any_of(facts, [&](const Fact* each) {
           const Fact* const first = facts.front();
           return each == nullptr || first == nullptr ? each != first : !are_equal(*each, *first);
         });
}

/// The keys of the facts that differ between these studies: the workload, then options, those of
/// the execution last, the device and the commit. Workloads that differ have options of their own,
/// which are left out.
std::vector<std::string> differing_keys(const std::vector<Facts>& facts) {
  std::set<std::string> all, differing;
  for (const Facts& each : facts) {
    for (const auto& [key, fact] : each) all.insert(key);
  }
  for (const std::string& key : all) {
    std::vector<const Fact*> of_key;
    for (const Facts& each : facts) {
      const auto found = each.find(key);
      of_key.push_back(found == each.end() ? nullptr : &found->second);
    }
    if (differs(of_key)) differing.insert(key);
  }
  std::vector<std::string> keys;
  const auto move = [&](const std::string& key) {
    if (differing.erase(key) > 0) keys.push_back(key);
  };
  move("workload");
  const bool have_one_workload = keys.empty();
  for (const bool of_execution : {false, true}) {
    std::ranges::copy_if(all, std::back_inserter(keys), [&](const std::string& key) {
      return have_one_workload && is_option(key) && differing.contains(key) &&
             is_of_execution(key) == of_execution;
    });
  }
  move("device");
  move("commit");
  return keys;
}

/// The values of these keys. Defaults are left out if the study has chosen another of the options.
std::vector<std::pair<std::string, std::string>> values_of(const std::vector<std::string>& keys,
                                                           const Facts& facts) {
  const auto is_chosen = [&](const std::string& key) {
    return is_option(key) && facts.contains(key) && facts.at(key).is_chosen;
  };
  const bool has_chosen = std::ranges::any_of(keys, is_chosen);
  std::vector<std::pair<std::string, std::string>> values;
  for (const std::string& key : keys) {
    if (!facts.contains(key) || (has_chosen && is_option(key) && !is_chosen(key))) continue;
    values.emplace_back(key, facts.at(key).value);
  }
  return values;
}

std::string words_of(const std::vector<std::pair<std::string, std::string>>& differs) {
  constexpr std::size_t max = 3;
  std::vector<std::string> words;
  for (const auto& [key, value] : differs) {
    words.push_back(key == "device" || key == "workload" ? value
                    : key == "commit"                    ? "commit " + value
                    : value.empty()                      ? "no " + key
                                                         : fmt::format("{}={}", key, value));
  }
  return join_first(words, max, ", ");
}

std::string folder_of(const StudyReport& study) {
  const fs::path parent = study.runs.front().path.parent_path();
  return parent.empty() ? "." : parent.string();
}

std::vector<Distinction> distinctions_of(const Report& report) {
  std::vector<std::vector<Facts>> facts;  // by group, then by study
  for (const StudyReport& study : report.studies) {
    const std::vector<Facts> groups = fact_groups_of(study);
    facts.resize(groups.size());
    for (std::size_t i = 0; i < groups.size(); ++i) facts[i].push_back(groups[i]);
  }
  const auto group = std::ranges::find_if(
      facts, [](const std::vector<Facts>& each) { return !differing_keys(each).empty(); });
  const auto keys = group == facts.end() ? std::vector<std::string>() : differing_keys(*group);
  std::vector<Distinction> studies;
  std::map<std::string, std::size_t> count;  // of studies with these words
  for (std::size_t i = 0; i < report.studies.size(); ++i) {
    Distinction study{.letter = std::string(1, static_cast<char>('A' + i)),
                      .folder = folder_of(report.studies[i]),
                      .differs = {},
                      .label = {}};
    if (group != facts.end()) study.differs = values_of(keys, (*group)[i]);
    ++count[words_of(study.differs)];
    studies.push_back(std::move(study));
  }
  for (Distinction& study : studies) {
    std::string words = words_of(study.differs);
    if (words.empty() || count[words] > 1) {
      words = fmt::format("{}{}{}", study.folder, words.empty() ? "" : ", ", words);
    }
    study.label = fmt::format("{}: {}", study.letter, words);
  }
  return studies;
}

/// The reason why the times of two studies cannot be compared, or "".
std::string other_work(const StudyReport& a, const StudyReport& b) {
  if (a.workload != b.workload || a.unit != b.unit) return "their workloads differ";
  bool have_common = false;
  for (const study::Size& size : a.table.sizes) {
    const auto found = std::ranges::find(b.table.sizes, size.ranks, &study::Size::ranks);
    const bool is_common = found != b.table.sizes.end();
    if (!is_common && !a.is_strong()) continue;
    const study::Size& other = is_common ? *found : b.table.sizes.front();
    have_common = true;
    if (!study::same_work(size.work, other.work)) {
      return fmt::format(
          "a repetition on {} does {:.4g} {} of work in one of them, {:.4g} {} in "
          "another one",
          counted(size.ranks, "rank"), size.work, a.unit, other.work, a.unit);
    }
  }
  return have_common ? "" : "they have no number of ranks in common";
}

void expect_comparable(const Report& report) {
  constexpr const char* remedy = "name two to six folders of studies, all strong or all weak";
  if (!report.benches.empty()) {
    throw UsageError(fmt::format("--together: '{}' is a file of bench, not a study: {}",
                                 report.benches.front().path.string(), remedy));
  }
  if (report.studies.size() < 2 || report.studies.size() > max_together) {
    throw UsageError(fmt::format(
        "--together: the files have {}: {}",
        report.studies.size() == 1 ? "1 study" : fmt::format("{} studies", report.studies.size()),
        remedy));
  }
  const StudyReport& first = report.studies.front();
  for (const StudyReport& study : report.studies) {
    if (study.table.sizes.size() < 2) {
      throw UsageError(fmt::format(
          "--together: the runs of {} are on one number of ranks only, so they have no speed-up: "
          "leave them out, or compare times with shardstream compare",
          excerpt(folder_of(study))));
    }
    if (study.is_strong() != first.is_strong()) {
      throw UsageError(fmt::format(
          "--together: {} is a {} study and {} is a {} one, whose speed-ups mean different things: "
          "{}",
          excerpt(folder_of(first)), first.is_strong() ? "strong" : "weak",
          excerpt(folder_of(study)), study.is_strong() ? "strong" : "weak", remedy));
    }
  }
}

/// The files by folder, in the order of the first file of each.
std::vector<std::vector<fs::path>> by_folder(std::span<const fs::path> files) {
  std::vector<fs::path> folders;
  std::vector<std::vector<fs::path>> groups;
  for (const fs::path& file : files) {
    const fs::path folder = fs::absolute(file).lexically_normal().parent_path();
    const auto found = std::ranges::find(folders, folder);
    const auto at = static_cast<std::size_t>(found - folders.begin());
    if (found == folders.end()) {
      folders.push_back(folder);
      groups.emplace_back();
    }
    groups[at].push_back(file);
  }
  return groups;
}

/// Whether the options of a study set its law.
bool have_configured(const Report& report) {
  return std::ranges::any_of(
      report.studies, [](const StudyReport& study) { return study.laws.configured.has_value(); });
}

}  // namespace

Report make_report_together(std::span<const fs::path> files) {
  Report report;
  for (const std::vector<fs::path>& folder : by_folder(files)) {
    Report part = make_report(folder);
    std::ranges::move(part.studies, std::back_inserter(report.studies));
    std::ranges::move(part.benches, std::back_inserter(report.benches));
    std::ranges::move(part.unreadable, std::back_inserter(report.unreadable));
  }
  expect_comparable(report);
  Together together{distinctions_of(report), {}};
  for (const StudyReport& study : report.studies) {
    if (together.why_no_times.empty()) {
      together.why_no_times = other_work(report.studies.front(), study);
    }
  }
  report.together = std::move(together);
  return report;
}

Table side_by_side(const Report& report) {
  std::vector<Column> columns = {{"quantity", ColumnType::text}, {"ranks", ColumnType::integer}};
  std::set<int> ranks;
  for (std::size_t i = 0; i < report.studies.size(); ++i) {
    columns.push_back({report.together->studies[i].letter, ColumnType::text});
    for (const study::Size& size : report.studies[i].table.sizes) ranks.insert(size.ranks);
  }
  Table table("together", columns);
  const auto add = [&](const std::string& name, study::Estimate study::Size::*of, int digits) {
    for (const int each : ranks) {
      std::vector<Cell> cells = {name, std::int64_t{each}};
      for (const StudyReport& study : report.studies) {
        const auto found = std::ranges::find(study.table.sizes, each, &study::Size::ranks);
        if (found == study.table.sizes.end()) {
          cells.emplace_back("-");
        } else {
          cells.emplace_back(with_interval((*found).*of, digits) + (found->noisier ? " !" : ""));
        }
      }
      table.add(std::move(cells));
    }
  };
  if (report.together->why_no_times.empty()) add("time [s]", &study::Size::seconds, 4);
  add(report.studies.front().is_strong() ? "speedup" : "scaled_speedup", &study::Size::speedup, 3);
  add("efficiency", &study::Size::efficiency, 3);
  return table;
}

Table distinctions(const Report& report) {
  std::vector<Column> columns = {{"study", ColumnType::text},     {"differs", ColumnType::text},
                                 {"folder", ColumnType::text},    {"launches", ColumnType::integer},
                                 {"reference", ColumnType::text}, {"serial", ColumnType::text},
                                 {"law_fits", ColumnType::text}};
  const bool has_configured = have_configured(report);
  if (has_configured) {
    columns.push_back({"serial_configured", ColumnType::text});
    columns.push_back({"serial_expected", ColumnType::text});
  }
  Table table("studies", columns);
  for (std::size_t i = 0; i < report.studies.size(); ++i) {
    const StudyReport& study = report.studies[i];
    const Distinction& each = report.together->studies[i];
    const std::string words = words_of(each.differs);
    const StudyLaws& laws = study.laws;
    const std::string share = laws.amdahl      ? with_interval(laws.amdahl->serial_share)
                              : laws.gustafson ? with_interval(laws.gustafson->serial_share)
                                               : "-";
    std::vector<Cell> cells = {each.letter,
                               words.empty() ? "-" : printable(words),
                               printable(each.folder),
                               static_cast<std::int64_t>(study.runs.size()),
                               counted(study.table.anchor, "rank"),
                               study.is_law_rejected() ? "-" : share,
                               word_of(study.fit_verdict())};
    if (has_configured) {
      const auto& law = laws.configured;
      cells.emplace_back(law ? fmt::format("{:.3g}", law->serial_share) : "-");
      cells.emplace_back(law ? fmt::format("{:.3g}", law->expected_share) : "-");
    }
    table.add(std::move(cells));
  }
  return table;
}

std::string words_on_together(const Report& report) {
  const int anchor = report.studies.front().table.anchor;
  const bool have_one_anchor = std::ranges::all_of(
      report.studies, [&](const StudyReport& study) { return study.table.anchor == anchor; });
  const std::string& why_no_times = report.together->why_no_times;
  std::string words = fmt::format(
      "Each speed-up refers to {} of its own study, so a greater one need not mean a shorter time. "
      "{}",
      have_one_anchor ? counted(anchor, "rank") : "the smallest size",
      why_no_times.empty()
          ? "All studies do the same work, so their times can be compared."
          : fmt::format("Times are not compared, since the work differs: {}.", why_no_times));
  const bool has_marks = std::ranges::any_of(report.studies, [](const StudyReport& study) {
    return std::ranges::any_of(study.table.sizes, &study::Size::noisier);
  });
  if (has_marks) words += fmt::format(" {}", meaning_of_mark);
  if (have_configured(report)) {
    words +=
        " The options set the share serial_configured. A fit to the expected times, which noise, "
        "imbalance and overhead make longer, gives serial_expected.";
  }
  return words;
}

std::string together_text(const Report& report) {
  const bool is_strong = report.studies.front().is_strong();
  std::string text =
      fmt::format("Together: {} scaling, {} studies\n\n{}\n{}\n", is_strong ? "strong" : "weak",
                  report.studies.size(), shardstream::to_text(distinctions(report)),
                  shardstream::to_text(side_by_side(report)));
  return text + words_on_together(report) + '\n';
}

}  // namespace shardstream::report
