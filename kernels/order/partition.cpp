#include "kernels/order/partition.hpp"

#include <array>
#include <atomic>
#include <vector>

#include "kernels/vector_clones.hpp"

namespace shardstream::order {
namespace {

constexpr std::size_t group = 1024;  // elements whose intervals are found before they are counted

template <Steps steps, class T>
SHARDSTREAM_VECTOR_CLONES void find_cells(const T* x, std::size_t count, const Locator<T>& given,
                                          std::uint16_t* cells) {
  const Locator<T> locator = given;  // a copy, which stores to `cells` cannot change
  for (std::size_t i = 0; i < count; ++i) {
    if constexpr (steps == Steps::of_value) {
      cells[i] = static_cast<std::uint16_t>(locator.by_value(x[i]));
    } else {
      cells[i] = static_cast<std::uint16_t>(locator.by_key(key_of(x[i])));
    }
  }
}

std::atomic_ref<std::uint64_t> shared(std::uint64_t& counter) {
  return std::atomic_ref(counter);
}

/// One part at work. It counts by itself, and moves collected keys in groups.
template <class T>
class PartitionWorker {
 public:
  explicit PartitionWorker(const PartitionArgs<T>& args)
      : args_(args), steps_(search_steps(args.intervals)), own_(copies * args.intervals) {}

  void add(const T* x, std::size_t count) {
    find(x, count);
    if (kept_ + count > keys_.size()) flush();
    const PartitionTable<T>& table = *args_.table;
    for (std::size_t i = 0; i < count; ++i) {
      unsigned code = table.cell[cells_[i]];
      if (code == several || x[i] != x[i]) [[unlikely]]
        code = table.code[search(x[i])];
      ++own_[(code & (collects - 1U)) * copies + i % copies];
      if ((code & collects) != 0) keys_[kept_++] = key_of(x[i]);
    }
  }

  void finish() {
    flush();
    for (std::size_t i = 0; i < own_.size(); ++i) {
      if (own_[i] > 0) shared(args_.counts[i / copies]).fetch_add(own_[i]);
    }
  }

 private:
  // Neighbouring elements are often in one interval, and an addition waits for the one before.
  static constexpr std::size_t copies = 4;

  unsigned search(T x) const {
    return interval_of(args_.table->last, steps_, x == x ? key_of(x) : max_key<T>);
  }

  void find(const T* x, std::size_t count) {
    if constexpr (std::floating_point<T>) {
      if (args_.locator.steps() == Steps::of_value) {
        return find_cells<Steps::of_value>(x, count, args_.locator, cells_.data());
      }
    }
    find_cells<Steps::of_key>(x, count, args_.locator, cells_.data());
  }
  void flush() {
    const std::uint64_t first = shared(*args_.collected).fetch_add(kept_);
    for (std::uint64_t i = 0; i < kept_ && first + i < args_.capacity; ++i) {
      args_.keys[first + i] = keys_[i];
    }
    kept_ = 0;
  }

  const PartitionArgs<T>& args_;
  unsigned steps_;
  std::vector<std::uint64_t> own_;
  std::array<std::uint16_t, group> cells_;
  std::array<Key<T>, 4 * group> keys_;
  std::size_t kept_ = 0;
};

template <class T>
void partition_host(const PartitionArgs<T>& args, unsigned number, unsigned parts) {
  const Rows mine = rows_of(args.count, number, parts);
  PartitionWorker<T> part(args);
  for (std::uint64_t i = mine.begin; i < mine.end; i += group) {
    part.add(args.elements + i, std::min<std::uint64_t>(group, mine.end - i));
  }
  part.finish();
}

}  // namespace

template <class T>
void fill_table(const std::vector<Interval<T>>& intervals, const Locator<T>& locator,
                PartitionTable<T>& table) {
  std::ranges::fill(table.last, max_key<T>);
  std::ranges::fill(table.cell, several);
  Key<T> first = 0;
  unsigned begun = locator_cells;  // the last cell of the intervals before
  for (std::size_t i = 0; i < intervals.size(); ++i) {
    const auto code = static_cast<std::uint16_t>(i | (intervals[i].collects ? collects : 0U));
    table.last[i] = intervals[i].last;
    table.code[i] = code;
    const Key<T> low = std::max(first, lowest_key<T>);
    const Key<T> high = std::min(intervals[i].last, highest_key<T>);
    first = intervals[i].last + 1;
    if (low > high) continue;  // only NaNs
    const unsigned end = locator(value_of<T>(high));
    for (unsigned c = locator(value_of<T>(low)); c <= end; ++c) {
      table.cell[c] = c == begun ? several : code;
    }
    begun = end;
  }
}

template <class T>
Kernel<PartitionArgs<T>> partition_kernel() {
  return {"order_partition", partition_host<T>, with_cuda<cuda::partition<T>>()};
}

template void fill_table(const std::vector<Interval<float>>&, const Locator<float>&,
                         PartitionTable<float>&);
template void fill_table(const std::vector<Interval<double>>&, const Locator<double>&,
                         PartitionTable<double>&);
template void fill_table(const std::vector<Interval<std::int32_t>>&, const Locator<std::int32_t>&,
                         PartitionTable<std::int32_t>&);
template void fill_table(const std::vector<Interval<std::int64_t>>&, const Locator<std::int64_t>&,
                         PartitionTable<std::int64_t>&);
template void fill_table(const std::vector<Interval<std::int8_t>>&, const Locator<std::int8_t>&,
                         PartitionTable<std::int8_t>&);
template void fill_table(const std::vector<Interval<std::uint8_t>>&, const Locator<std::uint8_t>&,
                         PartitionTable<std::uint8_t>&);
template void fill_table(const std::vector<Interval<std::uint64_t>>&, const Locator<std::uint64_t>&,
                         PartitionTable<std::uint64_t>&);

template Kernel<PartitionArgs<float>> partition_kernel();
template Kernel<PartitionArgs<double>> partition_kernel();
template Kernel<PartitionArgs<std::int32_t>> partition_kernel();
template Kernel<PartitionArgs<std::int64_t>> partition_kernel();
template Kernel<PartitionArgs<std::int8_t>> partition_kernel();
template Kernel<PartitionArgs<std::uint8_t>> partition_kernel();
template Kernel<PartitionArgs<std::uint64_t>> partition_kernel();

}  // namespace shardstream::order
