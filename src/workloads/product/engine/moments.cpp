#include "workloads/product/engine/moments.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "core/error.hpp"
#include "core/log.hpp"
#include "core/units.hpp"
#include "kernels/gemm/panel/moments.hpp"
#include "kernels/gemm/panel/panel.hpp"
#include "kernels/gemm/panel/words.hpp"

namespace shardstream::workloads {
namespace {

using device::Buffer;
using device::Memory;

constexpr std::uint64_t most_unit_bytes = std::uint64_t{2} << 20;
constexpr std::uint64_t most_ring_bytes = std::uint64_t{64} << 20;
constexpr std::uint64_t least_batches = 2;
/// Tasks that there are at least, if the shape has as many units: for as many ranks.
constexpr std::uint64_t wanted_tasks = 64;
/// Columns of a unit at most, so that the sums of all tasks stay within some MiB; rows of as many
/// elements are still read at full speed.
constexpr std::uint64_t most_columns = 16384;

/// Device memory besides the batches.
std::uint64_t sums_bytes(std::uint64_t variables, std::uint64_t sums, std::uint64_t units) {
  return aligned(variables * sizeof(double)) + 2 * aligned(sums * sizeof(double)) +
         aligned(units * sizeof(std::uint64_t));
}

/// As much memory as the ring that was asked for, if that does for its readers.
std::uint64_t slots_of(const pipeline::Ring& staging, std::uint64_t unit) {
  return std::clamp<std::uint64_t>(staging.slots * staging.slot_bytes / unit, staging.readers,
                                   4 * staging.slots);
}

std::uint64_t of_moments(const GemmOperands& operands) {
  return Moments::device_bytes(*operands.a, !operands.transpose_a);
}

}  // namespace

Moments::Cut::Cut(const io::Matrix& matrix, bool variables_are_rows)
    : variables(variables_are_rows ? matrix.rows() : matrix.columns()),
      samples(variables_are_rows ? matrix.columns() : matrix.rows()) {
  const std::uint64_t elements = most_unit_bytes / size_of(matrix.type());
  if (variables_are_rows) {
    cell_samples = std::min(samples, elements);
    cell_variables = std::min(variables, elements / cell_samples);
  } else {
    cell_variables = std::min(variables, most_columns);
    cell_samples = std::min(samples, elements / cell_variables);
  }
  blocks = std::min(ceil_div(variables, cell_variables), wanted_tasks);
  groups = std::min(ceil_div(samples, cell_samples), ceil_div(wanted_tasks, blocks));
}

Range Moments::Cut::variable_cells(std::uint64_t task) const {
  return share(ceil_div(variables, cell_variables), task / groups, blocks);
}
Range Moments::Cut::sample_cells(std::uint64_t task) const {
  return share(ceil_div(samples, cell_samples), task % groups, groups);
}
Range Moments::Cut::variables_of(Range cells) const {
  return intersection({cells.first * cell_variables, cells.count * cell_variables}, {0, variables});
}
Range Moments::Cut::samples_of(Range cells) const {
  return intersection({cells.first * cell_samples, cells.count * cell_samples}, {0, samples});
}

std::uint64_t Moments::Cut::units() const {
  return ceil_div(variables, cell_variables) * ceil_div(samples, cell_samples);
}

std::uint64_t Moments::device_bytes(const io::Matrix& matrix, bool variables_are_rows) {
  const Cut cut(matrix, variables_are_rows);
  const std::uint64_t units = cut.units(), unit = aligned(cut.elements() * size_of(matrix.type()));
  const std::uint64_t ring =
      std::max(least_batches * unit, std::min(most_ring_bytes, units * unit));
  return sums_bytes(cut.variables, cut.variables * cut.groups, units) + ring;
}

std::uint64_t Moments::host_bytes(const io::Matrix& matrix, bool variables_are_rows,
                                  const pipeline::Ring& staging) {
  const Cut cut(matrix, variables_are_rows);
  const std::uint64_t unit = cut.elements() * size_of(matrix.type());
  // Sums and squares, of this rank and gathered; word sums of both sides
  return slots_of(staging, unit) * unit + 4 * cut.variables * cut.groups * sizeof(double) +
         2 * cut.units() * sizeof(std::uint64_t);
}

Moments::Moments(runtime::Runtime& runtime, const io::Matrix& matrix, bool variables_are_rows,
                 std::uint64_t device_bytes, const pipeline::Ring& staging)
    : runtime_(runtime),
      matrix_(matrix),
      rows_(variables_are_rows),
      element_(size_of(matrix.type())),
      rank_(static_cast<std::uint64_t>(runtime.session.rank())),
      ranks_(static_cast<std::uint64_t>(runtime.session.size())),
      cut_(matrix, variables_are_rows),
      starts_{0},
      own_(tasks_of(rank_)),
      first_unit_{0},
      unit_bytes_(cut_.elements() * element_),
      ring_(*runtime.device, runtime.recorder, ring_sizes(device_bytes, staging),
            &runtime.session.heartbeat()) {
  device::Device& device = *runtime.device;
  const std::uint64_t sums = sums_of(own_), units = first_unit_.back();
  shift_ = {device, Memory::device, cut_.variables};
  sums_ = {device, Memory::device, sums};
  squares_there_ = {device, Memory::device, sums};
  sums_here_ = {device, Memory::pinned, sums};
  squares_here_ = {device, Memory::pinned, sums};
  words_ = {device, Memory::device, units};
  words_here_ = {device, Memory::pinned, units};
  read_words_.resize(units);
}

void Moments::number_units() {
  for (std::uint64_t task = 0; task < cut_.tasks(); ++task) {
    const Range variables = cut_.variables_of(cut_.variable_cells(task));
    starts_.push_back(starts_.back() + variables.count);
  }
  for (std::uint64_t task = own_.first; task < own_.end(); ++task) {
    const Range variables = cut_.variable_cells(task), samples = cut_.sample_cells(task);
    first_unit_.push_back(first_unit_.back() + variables.count * samples.count);
    uploaded_ += cut_.variables_of(variables).count * cut_.samples_of(samples).count * element_;
  }
}

pipeline::RingSizes Moments::ring_sizes(std::uint64_t device_bytes, const pipeline::Ring& staging) {
  number_units();
  const std::uint64_t unit = aligned(unit_bytes_);
  const std::uint64_t sums = sums_bytes(cut_.variables, sums_of(own_), first_unit_.back());
  const std::uint64_t need = sums + least_batches * unit;
  if (need > device_bytes) {
    throw UsageError(fmt::format(
        "the means and squares of {} variables need {} of device memory and a rank may use {}: "
        "raise pipeline.gpu-memory to that",
        cut_.variables, format_size(need), format_size(device_bytes)));
  }
  const std::uint64_t room = std::min(most_ring_bytes, device_bytes - sums);
  return {.slot_bytes = unit_bytes_,
          .slots = slots_of(staging, unit_bytes_),
          .readers = staging.readers,
          .batch_bytes = unit_bytes_,
          .batches =
              std::clamp(room / unit, least_batches, std::max(least_batches, first_unit_.back()))};
}

/// Own unit `number`: all samples of a task's first variables, then of the next.
Moments::Unit Moments::unit(std::uint64_t number) const {
  const auto after = std::ranges::upper_bound(first_unit_, number);
  const auto task_here = static_cast<std::uint64_t>(after - first_unit_.begin()) - 1;
  const std::uint64_t task = own_.first + task_here, within = number - first_unit_[task_here];
  const Range variables = cut_.variable_cells(task), samples = cut_.sample_cells(task);
  return {task, cut_.variables_of({variables.first + within / samples.count, 1}),
          cut_.samples_of({samples.first + within % samples.count, 1}),
          within % samples.count == 0};
}

// ---------------------------------------------------------------- one pass

void Moments::run() {
  const std::vector<double> shift = first_sample();
  device::Stream& stream = ring_.compute();
  stream.upload(shift_.data(), shift.data(), shift_.bytes());
  stream.launch(gemm::zero_kernel(), {words_.data(), words_.bytes()});
  stream.synchronize();
  Progress progress("finding means", static_cast<double>(first_unit_.back()), rank_ == 0);
  ring_.run({.batches = first_unit_.back(),
             .pieces = first_unit_.back(),
             .piece = [this](std::uint64_t number) -> pipeline::Piece {
               return {number, 0, bytes(unit(number))};
             },
             .read = [this](std::uint64_t number, std::byte* slot) { return read(number, slot); },
             .on_arrival = nullptr,
             .on_batch =
                 [&](device::Stream& compute_stream, std::uint64_t number, const std::byte* data) {
                   compute(compute_stream, number, data);
                   progress.add(1);
                 }});
  if (first_unit_.back() > 0) {
    stream.download(sums_here_.data(), sums_.data(), sums_.bytes());
    stream.download(squares_here_.data(), squares_there_.data(), squares_there_.bytes());
    stream.download(words_here_.data(), words_.data(), words_.bytes());
    stream.synchronize();
  }
  check_words();
  fold(shift);
}

/// What sums are taken from: near the mean, so that squares lose few digits. Each rank reads a
/// part.
std::vector<double> Moments::first_sample() const {
  constexpr std::uint64_t step = 4096;
  std::vector<double> mine(ceil_div(cut_.variables, ranks_));
  const Range variables = share(cut_.variables, rank_, ranks_);
  std::vector<std::byte> stored(std::min(step, variables.count) * element_);
  for (std::uint64_t first = 0; first < variables.count; first += step) {
    const Range some = intersection(variables, {variables.first + first, step});
    const Unit unit{0, some, {0, 1}, true};
    matrix_.read(rows(unit), columns(unit), stored.data(), columns(unit).count * element_);
    runtime_.session.heartbeat().move();
    with_element_type(matrix_.type(), [&](auto tag) {
      const auto* const from = reinterpret_cast<const typename decltype(tag)::type*>(stored.data());
      for (std::uint64_t i = 0; i < some.count; ++i) {
        mine[first + i] = static_cast<double>(from[i]);
      }
    });
  }
  const std::vector<double> all = runtime_.session.gather(mine);
  std::vector<double> sample;
  for (std::uint64_t rank = 0; rank < ranks_; ++rank) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(rank * mine.size());
    const std::uint64_t count = share(cut_.variables, rank, ranks_).count;
    sample.insert(sample.end(), begin, begin + static_cast<std::ptrdiff_t>(count));
  }
  return sample;
}

/// By readers.
const std::byte* Moments::read(std::uint64_t number, std::byte* slot) {
  const Unit here = unit(number);
  matrix_.read(rows(here), columns(here), slot, columns(here).count * element_);
  read_words_[number] = gemm::word_sum(slot, bytes(here));
  return slot;
}

void Moments::compute(device::Stream& stream, std::uint64_t number, const std::byte* data) {
  const Unit here = unit(number);
  const std::uint64_t block = cut_.variables_of(cut_.variable_cells(here.task)).first;
  const std::uint64_t at =
      starts_[here.task] - starts_[own_.first] + (here.variables.first - block);
  stream.launch(gemm::word_sum_kernel(), {data, bytes(here), words_.data() + number});
  stream.launch(gemm::moments_kernel(),
                {data, matrix_.type(), rows_, here.variables.count, here.samples.count,
                 columns(here).count, shift_.data() + here.variables.first, sums_.data() + at,
                 squares_there_.data() + at, here.first});
}

void Moments::check_words() const {
  for (std::uint64_t number = 0; number < read_words_.size(); ++number) {
    if (read_words_[number] == words_here_[number]) continue;
    const Range some = rows(unit(number));
    throw Error(fmt::format(
        "rows {} to {} of {} are not on the device as they were read on rank {} (memory or the "
        "link has changed them): run again, and have the machine looked at if it happens again",
        some.first, some.end() - 1, matrix_.name(), rank_));
  }
}

/// All ranks' sums, added in the order of a variable's samples.
void Moments::fold(const std::vector<double>& shift) {
  std::uint64_t most = 0;  // of one rank
  for (std::uint64_t rank = 0; rank < ranks_; ++rank) {
    most = std::max(most, sums_of(tasks_of(rank)));
  }
  std::vector<double> mine(2 * most);
  std::copy_n(sums_here_.data(), sums_of(own_), mine.begin());
  std::copy_n(squares_here_.data(), sums_of(own_),
              mine.begin() + static_cast<std::ptrdiff_t>(most));
  const std::vector<double> all = runtime_.session.gather(mine);
  std::vector<double> sums(cut_.variables), squares(cut_.variables);
  for (std::uint64_t rank = 0; rank < ranks_; ++rank) {
    const Range tasks = tasks_of(rank);
    for (std::uint64_t task = tasks.first; task < tasks.end(); ++task) {
      const Range variables = cut_.variables_of(cut_.variable_cells(task));
      const std::uint64_t at = rank * 2 * most + starts_[task] - starts_[tasks.first];
      for (std::uint64_t i = 0; i < variables.count; ++i) {
        sums[variables.first + i] += all[at + i];
        squares[variables.first + i] += all[at + most + i];
      }
    }
  }
  const auto count = static_cast<double>(cut_.samples);
  means_.resize(cut_.variables);
  squares_.resize(cut_.variables);
  raw_squares_.resize(cut_.variables);
  for (std::uint64_t v = 0; v < cut_.variables; ++v) {
    const double about_mean = squares[v] - sums[v] * (sums[v] / count);
    means_[v] = shift[v] + sums[v] / count;
    squares_[v] = about_mean < 0 ? 0 : about_mean;  // by rounding; a NaN stays
    raw_squares_[v] = squares_[v] + count * means_[v] * means_[v];
  }
}

Normalization normalization(const GemmOperands& operands, const Moments& moments) {
  Normalization made;
  if (operands.center) made.shift = moments.means();
  if (!operands.scale) return made;
  for (const double squares : operands.center ? moments.squares() : moments.raw_squares()) {
    const double deviation = std::sqrt(squares * operands.alpha);
    made.constant += deviation == 0 ? 1 : 0;
    // An infinite one is of squares beyond doubles, and not the variable's.
    const double nan = std::numeric_limits<double>::quiet_NaN();
    made.scale.push_back(deviation == 0 ? 0 : std::isinf(deviation) ? nan : 1 / deviation);
  }
  return made;
}

std::uint64_t Normalizer::device_bytes(const GemmOperands& operands, const gemm::Tile& tile) {
  if (!operands.normalizes()) return 0;
  return of_moments(operands) + GemmPanels::normalization_bytes(operands, tile);
}

Normalizer::Normalizer(runtime::Runtime& runtime, const GemmOperands& operands,
                       const pipeline::Ring& staging)
    : operands_(operands),
      moments_(runtime, *operands.a, !operands.transpose_a, of_moments(operands), staging) {}

void Normalizer::run(GemmProduct& product) {
  moments_.run();
  Normalization made = normalization(operands_, moments_);
  constant_ = made.constant;
  product.normalize(std::move(made.shift), std::move(made.scale));
}

}  // namespace shardstream::workloads
