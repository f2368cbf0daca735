#include "experiments/machine/starts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/error.hpp"
#include "core/text.hpp"

namespace shardstream::experiments::machine {
namespace {

// A pattern that excludes a component which is never selected: Open MPI then tries all others.
constexpr const char* every_network = "OMPI_MCA_pml=^monitoring";
constexpr const char* lazy = "CUDA_MODULE_LOADING=LAZY";

std::vector<Start> starts_of_mpi() {
  return {{.part = "MPI", .setting = "every network", .environment = {every_network}},
          {.part = "MPI",
           .setting = "OMPI_MCA_pml=ob1",
           .compared_with = "every network",
           .environment = {"OMPI_MCA_pml=ob1"}},
          {.part = "MPI",
           .setting = "also OMPI_MCA_btl=self,vader",
           .compared_with = "OMPI_MCA_pml=ob1",
           .environment = {"OMPI_MCA_pml=ob1", "OMPI_MCA_btl=self,vader"}}};
}

std::vector<Start> starts_of_gpu(int visible_gpus) {
  std::vector<Start> starts = {{.part = "GPU",
                                .setting = "eager loading",
                                .environment = {"CUDA_MODULE_LOADING=EAGER"},
                                .in_quick = true},
                               {.part = "GPU",
                                .setting = "lazy loading",
                                .compared_with = "eager loading",
                                .environment = {lazy},
                                .in_quick = true}};
  if (visible_gpus > 1) {
    starts.push_back({.part = "GPU",
                      .setting = "one visible GPU",
                      .compared_with = "lazy loading",
                      .environment = {lazy},
                      .own_gpu_only = true});
  }
  starts.push_back({.part = "GPU",
                    .setting = "PTX, no cache",
                    .compared_with = "lazy loading",
                    .environment = {lazy, "CUDA_FORCE_PTX_JIT=1", "CUDA_CACHE_DISABLE=1"},
                    .in_quick = true});
  starts.push_back({.part = "GPU",
                    .setting = "PTX, from the cache",
                    .compared_with = "PTX, no cache",
                    .environment = {lazy, "CUDA_FORCE_PTX_JIT=1", "CUDA_CACHE_DISABLE=0"},
                    .in_quick = true,
                    .cached = true});
  return starts;
}

std::vector<Start> starts_of_nccl() {
  std::vector<Start> starts = {{.part = "NCCL", .setting = "as set"}};
  for (const char* each : {"NCCL_NVLS_ENABLE=0", "NCCL_CUMEM_ENABLE=0", "NCCL_IB_DISABLE=1"}) {
    starts.push_back(
        {.part = "NCCL", .setting = each, .compared_with = "as set", .environment = {each}});
  }
  return starts;
}

std::string_view name_in(std::string_view variable) {
  return variable.substr(0, variable.find('='));
}

}  // namespace

Stage stage_named(std::string_view word) {
  const auto found = std::ranges::find(stage_words, word);
  if (found == stage_words.end()) {
    throw Error(fmt::format("a start has no stage {}", excerpt(word)));
  }
  return static_cast<Stage>(found - stage_words.begin());
}

std::vector<Start> possible_starts(const StartFacts& facts, bool quick) {
  std::vector<Start> starts = {{.part = "all", .setting = "as a run", .in_quick = true}};
  const auto add = [&](std::vector<Start> more) {
    starts.insert(starts.end(), more.begin(), more.end());
  };
  if (facts.has_open_mpi) add(starts_of_mpi());
  if (facts.has_gpu) add(starts_of_gpu(facts.visible_gpus));
  if (facts.has_gpu && facts.has_nccl) add(starts_of_nccl());
  if (quick) std::erase_if(starts, [](const Start& s) { return !s.in_quick; });
  return starts;
}

std::vector<Stage> stages_of(const Start& start, const StartFacts& facts) {
  using enum Stage;
  if (start.part == "MPI" || !facts.has_gpu) return {process, mpi};
  if (start.part == "GPU") return {process, driver, context, modules, kernel};
  if (start.part == "NCCL") return {process, driver, context, modules, communicator};
  std::vector<Stage> all = {process, mpi, driver, context, modules, kernel};
  if (facts.has_nccl) all.push_back(communicator);
  return all;
}

bool changes_nothing(const Start& start, const std::vector<Start>& starts,
                     std::vector<std::string> environment) {
  const auto other = std::ranges::find_if(starts, [&](const Start& each) {
    return each.part == start.part && each.setting == start.compared_with;
  });
  if (other == starts.end() || start.own_gpu_only || start.cached) return false;
  // A later entry replaces an earlier one of the same name.
  environment.insert(environment.end(), other->environment.begin(), other->environment.end());
  return std::ranges::all_of(start.environment, [&](const std::string& setting) {
    const auto has_same_name = [&](const std::string& each) {
      return name_in(each) == name_in(setting);
    };
    const auto last = std::find_if(environment.rbegin(), environment.rend(), has_same_name);
    return last != environment.rend() && *last == setting;
  });
}

StageTimes times_of(std::uint64_t begin, const std::vector<Stage>& stages,
                    const std::vector<std::uint64_t>& answer) {
  expect(answer.size() == 2 * stages.size() + 1, "a process reports the times of its stages");
  StageTimes times;
  times.fill(std::numeric_limits<double>::quiet_NaN());
  const auto put = [&](Stage stage, std::uint64_t from, std::uint64_t to) {
    times[static_cast<std::size_t>(stage)] = static_cast<double>(to - from) / 1e6;
  };
  put(stages.at(0), begin, answer[0]);
  for (std::size_t i = 1; i < stages.size(); ++i) {
    put(stages[i], answer[2 * i + 1], answer[2 * i + 2]);
  }
  return times;
}

StageTimes medians(const std::vector<StageTimes>& processes) {
  StageTimes result{};
  for (std::size_t stage = 0; stage < result.size(); ++stage) {
    std::vector<double> times;
    for (const StageTimes& process : processes) times.push_back(process[stage]);
    result[stage] = median(std::move(times));
  }
  return result;
}

double total(const StageTimes& times) {
  double sum = 0;
  for (const double time : times) sum += std::isnan(time) ? 0 : time;
  return sum;
}

std::string words_on_saving(const Summary& own, const Summary& other, std::string_view other_name) {
  constexpr double least_share = 0.03;
  const double saved = other.median - own.median;
  const bool overlap = own.min <= other.max && other.min <= own.max;
  if (overlap || std::abs(saved) < least_share * other.median) {
    return fmt::format("no difference beyond the scatter ({})", other_name);
  }
  return saved > 0
             ? fmt::format("saves {:.0f} ms of {:.0f} ms ({})", saved, other.median, other_name)
             : fmt::format("takes {:.0f} ms more than {:.0f} ms ({})", -saved, other.median,
                           other_name);
}

std::string words_on_longest(const StageTimes& times) {
  const auto known = [](double time) { return std::isnan(time) ? 0 : time; };
  const auto longest = std::ranges::max_element(times, {}, known);
  return fmt::format("the longest stage is {}, {:.0f} % of it",
                     stage_words[static_cast<std::size_t>(longest - times.begin())],
                     100 * known(*longest) / total(times));
}

std::string words_on_serial_part(double milliseconds) {
  constexpr double share = 0.05;
  const double seconds = milliseconds / 1e3;
  return fmt::format(
      "A start as a run takes {:.2f} s here: it is in the serial part of Amdahl's law. It is "
      "more than {:.0f} % of a run whose work takes less than {:.0f} s, and no number "
      "of GPUs makes the run shorter than the start.",
      seconds, 100 * share, std::ceil(seconds * (1 - share) / share));
}

std::string words_on_persistence(std::string_view mode) {
  const std::string_view loses =
      "the driver initialises the GPU again for the first process after a pause, which takes "
      "seconds. An administrator turns it on (nvidia-persistenced, or nvidia-smi -pm 1).";
  if (mode == "off") return fmt::format("Persistence mode is off: {}", loses);
  if (mode == "on") {
    return "Persistence mode is on: the GPU stays initialised while no process uses it.";
  }
  return fmt::format("NVML does not report persistence mode. If it is off, {}", loses);
}

}  // namespace shardstream::experiments::machine
