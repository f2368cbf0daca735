#include "scale/study_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/crc.hpp>
#include <random>

#include "core/text.hpp"
#include "scale/program_plan.hpp"
#include "scale/workload_plan.hpp"
#include "study_folder/names.hpp"
#include "study_folder/study_ini.hpp"

namespace shardstream::scale {

namespace fs = std::filesystem;

std::string name_of(const PlannedLaunch& launch) {
  if (launch.measures()) return study_folder::launch_name(launch.size->ranks, launch.replicate);
  return launch.purpose == Purpose::timeline ? study_folder::timeline_name(launch.size->ranks)
                                             : label_of(launch);
}

std::string label_of(const PlannedLaunch& launch) {
  if (launch.measures()) return launch.size->name;
  return std::string(launch.purpose == Purpose::timeline ? study_folder::timeline_label
                                                         : study_folder::calibration_label);
}

StudyPlan::StudyPlan(const Order& order)
    : options_(order.options),
      folder_(order.folder),
      request_(request_of(order.options)),
      launcher_(request_),
      program_(fs::read_symlink("/proc/self/exe").string()) {
  const std::string ini = study_folder::ini_text(chosen(options_), "");
  boost::crc_32_type crc;  // makes the name the same in --list and in the study itself
  crc.process_bytes(ini.data(), ini.size());
  // study.ini has the name in one line, so it must be printable.
  name_ = fmt::format("{}-{:08x}", printable(fs::absolute(folder_).filename().string()),
                      crc.checksum());
  for (const std::uint64_t ranks : request_.ranks) {
    sizes_.push_back({.name = fmt::format("p{}", ranks), .ranks = ranks});
  }
}

fs::path StudyPlan::result_of(const PlannedLaunch& launch) const {
  return folder_ / study_folder::result_name(name_of(launch));
}

std::vector<PlannedLaunch> StudyPlan::launches() const {
  std::vector<PlannedLaunch> launches;
  for (std::uint64_t replicate = 1; replicate <= request_.replicates; ++replicate) {
    std::vector<const PlannedSize*> order;
    for (const PlannedSize& size : sizes_) order.push_back(&size);
    std::mt19937_64 random(request_.seed * 1'000'003 + replicate);
    for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random() % i]);
    for (const PlannedSize* size : order)
      launches.push_back({size, Purpose::measurement, replicate});
  }
  if (request_.timeline) {
    for (const PlannedSize& size : sizes_) launches.push_back({&size, Purpose::timeline});
  }
  return launches;
}

std::unique_ptr<StudyPlan> plan_of(const Order& order) {
  if (order.options.text("scale.command").empty()) return std::make_unique<WorkloadPlan>(order);
  return std::make_unique<ProgramPlan>(order);
}

}  // namespace shardstream::scale
