#include "scale/launch/slurm_job.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "process/filter.hpp"
#include "scale/launch/complaint.hpp"

namespace shardstream::scale {
namespace {

/// The same from the output of `scontrol show job`.
std::string end_of(std::string_view job, std::string_view description) {
  constexpr std::string_view key = "JobState=";
  constexpr std::array<std::string_view, 4> lasting = {"RUNNING", "CONFIGURING", "SUSPENDED",
                                                       "RESIZING"};
  const auto at = description.find(key);
  if (at == std::string_view::npos) return {};
  const std::string_view rest = description.substr(at + key.size());
  const std::string_view state = rest.substr(0, rest.find_first_of(" \n"));
  if (std::ranges::find(lasting, state) != lasting.end()) return {};
  return fmt::format("the Slurm job {} is {}", job, state);
}

}  // namespace

std::string slurm_job_id() {
  const char* const job = std::getenv("SLURM_JOB_ID");
  return job == nullptr ? "" : job;
}

std::string end_of_slurm_job(const std::filesystem::path& log, const char* const* environment) {
  constexpr int timeout = 20;  // seconds
  constexpr int first_signal = 128;
  const std::string job = slurm_job_id();
  if (job.empty()) return {};
  if (is_rejected_step(log, job)) return fmt::format("the Slurm job {} is about to end", job);
  std::vector<std::string> variables;
  for (auto each = environment; *each != nullptr; ++each) variables.emplace_back(*each);
  const auto ask = [&] {
    return process::filter({"scontrol", "show", "job", job}, "", timeout, variables);
  };
  process::FilterOutput answer = ask();
  if (answer.code > first_signal) answer = ask();  // scancel signals all processes of the job
  return answer.code == 0 ? end_of(job, answer.out) : std::string();
}

}  // namespace shardstream::scale
