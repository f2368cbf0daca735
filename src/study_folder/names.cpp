#include "study_folder/names.hpp"

#include <fmt/format.h>

namespace shardstream::study_folder {

std::string launch_name(std::uint64_t ranks, std::uint64_t replicate) {
  return fmt::format("p{}-r{}", ranks, replicate);
}

std::string timeline_name(std::uint64_t ranks) {
  return fmt::format("p{}-{}", ranks, timeline_label);
}

std::string result_name(std::string_view launch) {
  return fmt::format("{}.h5", launch);
}

}  // namespace shardstream::study_folder
