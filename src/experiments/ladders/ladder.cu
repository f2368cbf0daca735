#include "experiments/ladders/ladder.hpp"

#include <cmath>
#include <filesystem>
#include <utility>

#include "experiments/execution/occupancy_model.hpp"
#include "experiments/formatted.hpp"

namespace shardstream::experiments::ladders {
namespace {

/// "reduction.cu:120", or "-" if the kernel is not in this catalogue.
std::string text_of(const SourceLine& place) {
  if (place.file == nullptr) return "-";
  return formatted("{}:{}", std::filesystem::path(place.file).filename().string(), place.line);
}

/// The cells of registers, shared, occupancy and wave_occupancy. NaN without a launch.
std::vector<Cell> resources_of(const std::optional<KernelLaunch>& launch,
                               const cudaDeviceProp& gpu) {
  if (!launch) return std::vector<Cell>(4, std::nan(""));
  const cudaFuncAttributes attributes = attributes_of(launch->kernel);
  const unsigned threads = launch->threads_of_block();
  const unsigned fit = blocks_per_multiprocessor(launch->kernel, threads, launch->shared);
  const double occupancy =
      100.0 * fit * blocks_for(threads, warp) * warp / gpu.maxThreadsPerMultiProcessor;
  const std::uint64_t at_once = std::uint64_t{fit} * static_cast<unsigned>(gpu.multiProcessorCount);
  return {static_cast<double>(attributes.numRegs),
          static_cast<double>(attributes.sharedSizeBytes + launch->shared), occupancy,
          occupancy * execution::filled_by_waves(launch->block_count(), at_once)};
}

}  // namespace

Ladder::Ladder(Bench& bench, Gpu& gpu, std::vector<Column> varied, Column rate, double unit)
    : bench_(bench),
      gpu_(gpu),
      unit_(unit),
      rows_(columns_of(std::move(varied), std::move(rate)), {"time", ColumnType::real, "ms"},
            Rows::of_kernels) {}

void Ladder::begin(std::vector<Cell> varied, double useful, double reference) {
  continue_with(std::move(varied), reference);
  at_.useful = useful;
  at_.first = 0;
  at_.before = 0;
}

void Ladder::continue_with(std::vector<Cell> varied, double reference) {
  at_.varied = std::move(varied);
  at_.reference = reference;
}

Measured Ladder::climb(const Rung& rung, const std::function<void()>& enqueue,
                       const std::function<bool()>& is_right) {
  enqueue();
  gpu_.synchronize();
  bench_.verify(is_right(), rung.name);
  const Measured seconds = gpu_.time(enqueue).seconds;
  const double rate = at_.useful / seconds.value / unit_;
  const double factor = at_.before > 0 ? at_.before / seconds.value : 1;
  at_.before = seconds.value;
  if (at_.first <= 0) at_.first = seconds.value;
  const double total_factor = at_.first / seconds.value;
  std::vector<Cell> cells = at_.varied;
  cells.insert(cells.end(), {rung.name, text_of(rung.place)});
  for (Cell& cell : resources_of(rung.launch, gpu_.properties())) cells.push_back(std::move(cell));
  cells.insert(cells.end(), {factor, total_factor, rate});
  rows_.add(std::move(cells), seconds.times(1e3), rate / at_.reference, rung.remark, rung.work,
            seconds.value);
  return seconds;
}

}  // namespace shardstream::experiments::ladders
