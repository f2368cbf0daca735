#include "scale/launch/complaint.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <span>
#include <string_view>
#include <vector>

#include "core/text.hpp"

namespace shardstream::scale {
namespace {

bool is_rule(std::string_view line) {
  return line.size() >= 20 && line.find_first_not_of('-') == std::string_view::npos;
}

/// Whether a line has content that is neither a warning nor a line of Open MPI, "[host:pid] ...".
bool is_of_program(std::string_view line) {
  if (line.find_first_not_of("-= ") == line.npos || line.find("warning: ") != line.npos) {
    return false;
  }
  const std::string_view bracket = line.substr(0, line.find(']'));
  const auto colon = bracket.rfind(':');
  return line[0] != '[' || bracket.size() == line.size() || colon == bracket.npos ||
         colon + 1 == bracket.size() ||
         bracket.find_first_not_of("0123456789", colon + 1) != bracket.npos;
}

/// Collects the last line of the program before the first line of dashes, and the first paragraph
/// after it.
class FirstParagraph {
 public:
  void add(std::string_view line) {
    if (is_rule(line)) {
      has_rule_ = true;
      is_open_ = text_.empty() && !is_open_;
    } else if (is_open_ && line.empty()) {
      is_open_ = text_.empty();
    } else if (is_open_) {
      if (!text_.empty()) text_ += ' ';
      text_ += line;
    } else if (!has_rule_ && is_of_program(line)) {
      before_ = line;
    }
  }
  /// The line, since the paragraph of an exit code has no cause. The paragraph of a signal follows
  /// the line, which may be any. Empty without a paragraph.
  std::string text() const {
    if (before_.empty() || text_.empty()) return text_;
    return text_.find("signal") == text_.npos ? before_ : fmt::format("{}; {}", before_, text_);
  }

 private:
  bool has_rule_ = false, is_open_ = false;
  std::string before_, text_;
};

/// Whether a line of the log contains one of the sentences.
bool contains_any(const std::filesystem::path& log, std::span<const std::string_view> sentences) {
  std::ifstream file(log);
  for (std::string line; std::getline(file, line);) {
    const auto occurs = [&](std::string_view each) { return line.find(each) != line.npos; };
    if (std::ranges::any_of(sentences, occurs)) return true;
  }
  return false;
}

bool is_lack_of_slots(const std::filesystem::path& log) {
  // Open MPI: too few slots; too many ranks for --map-by ppr. Slurm: a step larger than its job.
  constexpr std::array<std::string_view, 4> sentences = {
      "not enough slots available", "requested more processes than the ppr",
      "More processors requested than permitted", "Requested node configuration is not available"};
  return contains_any(log, sentences);
}

bool is_lost_job(const std::filesystem::path& log) {
  constexpr std::array<std::string_view, 6> sentences = {
      "Unable to contact slurm controller",
      "Unable to confirm allocation",
      "Expired or invalid job",
      "Invalid job id specified",
      "failed to fetch config",
      "Could not establish a configuration source"};
  return contains_any(log, sentences);
}

}  // namespace

bool is_rejected_step(const std::filesystem::path& log, std::string_view job) {
  // srun found the job's end when it looked the job up, or when it requested the step.
  const std::array<std::string, 2> sentences = {
      fmt::format("job {} has expired", job),
      fmt::format("step for job {}: Job/step already completing or completed", job)};
  return contains_any(log, std::vector<std::string_view>(sentences.begin(), sentences.end()));
}

std::string complaint_of(const std::filesystem::path& log) {
  constexpr std::string_view mark = "error: ";
  constexpr std::size_t max_characters = 600;
  std::ifstream file(log);
  std::string error, last;
  FirstParagraph banner;
  for (std::string line; std::getline(file, line);) {
    const std::string_view said = trim(line);
    if (const auto at = said.find(mark); at != said.npos) error = said.substr(at + mark.size());
    if (said.find_first_not_of("-= ") != said.npos) last = said;
    banner.add(said);
  }
  std::string said = !error.empty() ? error : !banner.text().empty() ? banner.text() : last;
  if (said.ends_with(':')) said.pop_back();  // it announces a paragraph that is not included
  if (said.size() > max_characters) said = said.substr(0, max_characters) + "...";
  return printable(said);
}

std::string remedy_of(const std::filesystem::path& log) {
  if (is_lack_of_slots(log)) {
    return "choose fewer ranks (--scale.ranks), another launcher (--scale.launcher) or "
           "--scale.oversubscribe";
  }
  const char* const job = std::getenv("SLURM_JOB_ID");
  if (job == nullptr || !is_lost_job(log)) return {};
  return fmt::format(
      "SLURM_JOB_ID is {}, but Slurm does not answer here, or this job has ended: start the study "
      "in a running job (sbatch, salloc), or, if this shell has only the variables of a job, unset "
      "them (unset ${{!SLURM_@}}) or name another launcher (--scale.launcher 'mpirun -np "
      "{{ranks}}')",
      excerpt(job));
}

}  // namespace shardstream::scale
