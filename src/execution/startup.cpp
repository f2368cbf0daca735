#include "execution/startup.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string_view>

namespace shardstream::execution {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::array<std::string_view, 11> steps = {
    "mpi",  "open",  "device", "communicator", "ceilings", "allocate",
    "load", "begin", "work",   "verify",       "store"};
using Times = std::array<double, steps.size()>;

double& time_of(Times& times, std::string_view step) {
  return times.at(static_cast<std::size_t>(std::ranges::find(steps, step) - steps.begin()));
}

/// The age of this process in seconds, with a resolution of 0.01 s: starttime in proc(5).
double age_of_process() {
  std::ifstream file("/proc/self/stat");
  const std::string stat{std::istreambuf_iterator<char>(file), {}};
  const auto name_end = stat.rfind(')');  // the name may contain any character
  if (name_end == std::string::npos) return 0;
  std::istringstream fields(stat.substr(name_end + 1));
  std::string field;
  constexpr int starttime = 20;  // counted from the state, which follows the name
  for (int i = 0; i < starttime; ++i) fields >> field;
  std::timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  const double uptime = static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
  const double begun =
      std::strtod(field.c_str(), nullptr) / static_cast<double>(sysconf(_SC_CLK_TCK));
  return std::max(0.0, uptime - begun);
}

double seconds(Clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

/// The end of each step of this rank in seconds since its process started; 0 without such a step.
Times times_of(const runtime::Runtime& runtime, const measure::Samples& samples,
               Clock::time_point now, double age) {
  Times times{};
  const auto since_start = [&](Clock::time_point time) { return age - seconds(now - time); };
  for (const measure::Phase& phase : runtime.recorder.host_tracks().front().phases()) {
    if (std::ranges::find(steps, phase.name) == steps.end()) continue;
    double& time = time_of(times, phase.name);
    time = std::max(time, since_start(phase.last_end));
  }
  time_of(times, "mpi") = since_start(runtime.session.ready());
  time_of(times, "open") = since_start(runtime.begun);
  if (!samples.repetitions.empty()) {
    time_of(times, "begin") = since_start(samples.repetitions.front().begin);
    time_of(times, "work") = since_start(samples.repetitions.back().end);
  }
  time_of(times, "store") = age;
  return times;
}

}  // namespace

std::vector<result::Step> gather_steps(const runtime::Runtime& runtime,
                                       const measure::Samples& samples) {
  const auto now = Clock::now();
  const double age = age_of_process();
  const double utc = seconds(std::chrono::system_clock::now().time_since_epoch());
  const auto all = runtime.session.gather(std::vector{times_of(runtime, samples, now, age)});
  std::vector<result::Step> found;
  for (std::size_t step = 0; step < steps.size(); ++step) {
    std::vector<double> ranks;
    for (const Times& rank : all) {
      if (rank[step] > 0) ranks.push_back(rank[step]);
    }
    if (ranks.empty()) continue;
    const auto [first, last] = std::ranges::minmax(ranks);
    found.push_back({std::string(steps[step]), first, last, utc - age + last});
  }
  return found;
}

}  // namespace shardstream::execution
