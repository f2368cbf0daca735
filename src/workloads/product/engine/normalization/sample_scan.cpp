#include "workloads/product/engine/normalization/sample_scan.hpp"

#include <algorithm>
#include <cstddef>
#include <mutex>
#include <type_traits>

#include "core/log.hpp"
#include "core/parallel.hpp"
#include "core/shard.hpp"
#include "kernels/vector_clones.hpp"

namespace shardstream::workloads::product {
namespace {

/// A sum of doubles with almost twice their digits. T. Ogita, S. Rump, S. Oishi, Accurate sum and
/// dot product, SIAM J. Sci. Comput. 26 (2005), algorithm Sum2.
class CompensatedSum {
 public:
  void add(double x) {
    const double sum = sum_ + x, part = sum - sum_;
    rest_ += (sum_ - (sum - part)) + (x - part);
    sum_ = sum;
  }
  Shift mean(std::uint64_t count) const { return {0, (sum_ + rest_) / static_cast<double>(count)}; }

 private:
  double sum_ = 0, rest_ = 0;
};

__extension__ using Int128 = __int128;

class IntegerSum {
 public:
  void add(std::int64_t x) { sum_ += x; }
  Shift mean(std::uint64_t count) const {
    const auto terms = static_cast<Int128>(count);
    return {static_cast<std::int64_t>(sum_ / terms),
            static_cast<double>(sum_ % terms) / static_cast<double>(count)};
  }

 private:
  Int128 sum_ = 0;
};

/// Counts the missing values of a line, which are the values of one sample or of one variable.
/// Masks are 0 or 1. Adds 1 to each[i] if value i is missing and `line_mask` is 1. Returns the
/// number of missing values i with masks[i] = 1.
template <class T>
SHARDSTREAM_VECTOR_CLONES std::uint32_t count_missing(const T* __restrict line, std::uint64_t count,
                                                      const std::uint32_t* __restrict masks,
                                                      std::uint32_t line_mask,
                                                      std::uint32_t* __restrict each) {
  std::uint32_t total = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint32_t lacks = line[i] != line[i] ? 1 : 0;
    each[i] += lacks & line_mask;
    total += lacks & masks[i];
  }
  return total;
}

/// 1 for each of `count` samples or variables, or 0 if its weight is 0.
std::vector<std::uint32_t> masks_of(std::span<const double> weights, std::uint64_t count) {
  std::vector<std::uint32_t> masks(count, 1);
  for (std::size_t i = 0; i < weights.size(); ++i) masks[i] = weights[i] == 0 ? 0 : 1;
  return masks;
}

/// The scan of one rank's samples.
template <class T>
class Scan {
 public:
  Scan(const Operands& operands, Range samples)
      : operands_(operands),
        own_(samples),
        variable_masks_(masks_of(operands.weights_of(Weights::Of::variables), operands.n)),
        sample_masks_(masks_of(operands.weights_of(Weights::Of::samples), operands.k)),
        of_variables_(operands.n),
        of_samples_(samples.count),
        sums_(operands.center_over_variables ? samples.count : 0) {}

  /// Adds a rectangle of the data. Only one thread at a time may add to the same samples.
  void add(Range variables, Range samples) {
    const bool columns = operands_.transpose_a;  // variables are columns
    const Range lines = columns ? samples : variables, across = columns ? variables : samples;
    std::vector<T> stored(lines.count * across.count);
    operands_.a->read(lines, across, reinterpret_cast<std::byte*>(stored.data()),
                      across.count * sizeof(T));
    if constexpr (std::is_floating_point_v<T>) count(stored.data(), variables, samples);
    if (!sums_.empty()) sum(stored.data(), variables, samples);
  }

  const std::vector<std::uint64_t>& of_variables() const { return of_variables_; }
  const std::vector<std::uint32_t>& of_samples() const { return of_samples_; }

  std::vector<Shift> means() const {
    const auto all = static_cast<std::uint64_t>(std::ranges::count(variable_masks_, 1U));
    std::vector<Shift> means(sums_.size());
    for (std::size_t i = 0; i < means.size(); ++i) {
      const std::uint64_t present = skips_missing() ? all - of_samples_[i] : all;
      if (present > 0) means[i] = sums_[i].mean(present);
    }
    return means;
  }

 private:
  bool skips_missing() const { return operands_.missing == Missing::complete; }

  void count(const T* stored, Range variables, Range samples) {
    std::uint32_t* const of_samples = of_samples_.data() + (samples.first - own_.first);
    std::vector<std::uint32_t> mine(variables.count);
    if (operands_.transpose_a) {
      for (std::uint64_t s = 0; s < samples.count; ++s) {
        of_samples[s] += count_missing(stored + s * variables.count, variables.count,
                                       variable_masks_.data() + variables.first,
                                       sample_masks_[samples.first + s], mine.data());
      }
    } else {
      for (std::uint64_t v = 0; v < variables.count; ++v) {
        mine[v] = count_missing(stored + v * samples.count, samples.count,
                                sample_masks_.data() + samples.first,
                                variable_masks_[variables.first + v], of_samples);
      }
    }
    const std::lock_guard lock(mutex_);
    for (std::uint64_t v = 0; v < variables.count; ++v)
      of_variables_[variables.first + v] += mine[v];
  }

  void sum(const T* stored, Range variables, Range samples) {
    const bool columns = operands_.transpose_a;
    const std::uint64_t sample_pitch = columns ? variables.count : 1;
    const std::uint64_t variable_pitch = columns ? 1 : samples.count;
    for (std::uint64_t s = 0; s < samples.count; ++s) {
      Sum& sum = sums_[samples.first - own_.first + s];
      for (std::uint64_t v = 0; v < variables.count; ++v) {
        const T x = stored[s * sample_pitch + v * variable_pitch];
        if (variable_masks_[variables.first + v] == 0 || (skips_missing() && x != x)) continue;
        sum.add(x);
      }
    }
  }

  using Sum = std::conditional_t<std::is_same_v<T, std::int64_t>, IntegerSum, CompensatedSum>;

  const Operands& operands_;
  Range own_;
  std::vector<std::uint32_t> variable_masks_, sample_masks_;
  std::mutex mutex_;
  std::vector<std::uint64_t> of_variables_;
  std::vector<std::uint32_t> of_samples_;
  std::vector<Sum> sums_;
};

/// Reads this rank's samples, some variables after the others.
template <class T>
void read_samples(runtime::Runtime& runtime, const Operands& operands, Range own, unsigned readers,
                  Scan<T>& scan) {
  constexpr std::uint64_t piece_elements = (std::uint64_t{4} << 20) / sizeof(T);
  constexpr std::uint64_t rows_together = 256;  // of variables, so that parts of rows are long
  const std::uint64_t width =
      std::min(operands.n, operands.transpose_a ? piece_elements : rows_together);
  const std::uint64_t step = std::max<std::uint64_t>(1, piece_elements / width);
  Progress progress("scanning the samples",
                    static_cast<double>(operands.n) * static_cast<double>(own.count),
                    runtime.session.rank() == 0 && runtime.log.shows_progress());
  for (std::uint64_t first = 0; first < operands.n; first += width) {
    const Range variables = intersection({first, width}, {0, operands.n});
    parallel_for(ceil_div(own.count, step), readers, [&](std::uint64_t piece) {
      const Range samples = intersection({own.first + piece * step, step}, own);
      scan.add(variables, samples);
      runtime.session.heartbeat().move();
      progress.add(static_cast<double>(variables.count * samples.count));
    });
  }
}

}  // namespace

bool may_lack_values(const Operands& operands) {
  const ElementType type = operands.a->type();
  return type == ElementType::f32 || type == ElementType::f64;
}

SampleScan scan_samples(runtime::Runtime& runtime, const Operands& operands, unsigned readers) {
  const ranks::Session& session = runtime.session;
  const Range own = share(operands.k, static_cast<std::uint64_t>(session.rank()),
                          static_cast<std::uint64_t>(session.size()));
  SampleScan made;
  with_element_type(operands.a->type(), [&](auto tag) {
    Scan<typename decltype(tag)::type> scan(operands, own);
    session.collectively([&] { read_samples(runtime, operands, own, readers, scan); });
    made.of_variables.resize(operands.n);
    const std::vector<std::uint64_t> counts = session.gather(scan.of_variables());
    for (std::size_t i = 0; i < counts.size(); ++i) {
      made.of_variables[i % operands.n] += counts[i];
    }
    made.of_samples = session.gather(scan.of_samples());
    made.means = session.gather(scan.means());
  });
  return made;
}

}  // namespace shardstream::workloads::product
