// Packing of small copies. Each copy takes a few microseconds, however small it is; packing many
// items into one buffer takes less.
#include <cstring>
#include <string>

#include "core/units.hpp"
#include "experiments/experiment.hpp"
#include "experiments/formatted.hpp"
#include "experiments/link/host_memory.hpp"

namespace shardstream::experiments::link {

constexpr OptionRow options[] = {
    {"batching.item", OptionKind::size, "1KiB", "4..64KiB", "Size of an item."},
};

Table batching(Bench& bench);

extern const Experiment about_batching = {
    .name = "batching",
    .group = "link",
    .summary = "One packed copy is faster than many small copies.",
    .explanation =
        "Items of batching.item bytes lie in pinned memory with gaps between them, and are "
        "copied to the device without gaps. Three methods are compared: one copy per item; one "
        "2-D copy, in which the items are rows with a pitch; and one copy after the processor "
        "has packed the items, with the packing in the time. Each copy takes some microseconds "
        "whatever its size. Expect packing to win with more than a few items. CUDA C++ Best "
        "Practices Guide, section Data Transfer Between Host and Device.",
    .share = "of the rate of large uploads",
    .options = options,
    .figure = {.look = Look::lines,
               .x = "items",
               .y = "time",
               .series = "method",
               .log_x = true,
               .log_y = true,
               .more_is_better = false},
    .needs = {.ceilings = {"link_up"}},
    .run = with_cuda<batching>(),
};

#if SHARDSTREAM_HAS_CUDA
namespace {

/// Items with gaps between them in host memory, like fields of records, and without on the device.
class Items {
 public:
  Items(std::uint64_t count, std::uint64_t bytes, Gpu& gpu)
      : bytes_(bytes),
        pitch_(2 * bytes),
        gpu_(gpu),
        source_(HostKind::pinned, count * pitch_),
        packed_(HostKind::pinned, count * bytes),
        device_(count * bytes / sizeof(float)) {
    for (std::uint64_t i = 0; i < count; ++i) {
      write_numbers(reinterpret_cast<float*>(item(i)), floats(1), i * floats(1));
    }
  }

  /// One copy for each item.
  void copy_each(std::uint64_t count) const {
    for (std::uint64_t i = 0; i < count; ++i) {
      check(cudaMemcpyAsync(on_device(i), item(i), bytes_, cudaMemcpyHostToDevice, gpu_.stream()),
            "cudaMemcpyAsync");
    }
  }

  /// One 2-D copy, which is possible because the distance between items (the pitch) is constant.
  void copy_with_pitch(std::uint64_t count) const {
    check(cudaMemcpy2DAsync(on_device(0), bytes_, item(0), pitch_, bytes_, count,
                            cudaMemcpyHostToDevice, gpu_.stream()),
          "cudaMemcpy2DAsync");
  }

  /// The processor packs the items; one copy moves all of them.
  void pack_and_copy(std::uint64_t count) const {
    for (std::uint64_t i = 0; i < count; ++i) {
      std::memcpy(packed_.as() + i * bytes_, item(i), bytes_);
    }
    check(cudaMemcpyAsync(on_device(0), packed_.as(), count * bytes_, cudaMemcpyHostToDevice,
                          gpu_.stream()),
          "cudaMemcpyAsync");
  }

  void clear() const { device_.clear(gpu_.stream()); }
  bool has(std::uint64_t count) const {
    return device_has_numbers(device_.data(), floats(count), 0);
  }

 private:
  std::uint64_t floats(std::uint64_t count) const { return count * bytes_ / sizeof(float); }
  std::byte* item(std::uint64_t i) const { return source_.as() + i * pitch_; }
  std::byte* on_device(std::uint64_t i) const {
    return reinterpret_cast<std::byte*>(device_.data()) + i * bytes_;
  }

  std::uint64_t bytes_, pitch_;
  Gpu& gpu_;
  HostMemory source_, packed_;
  DeviceArray<float> device_;
};

}  // namespace

Table batching(Bench& bench) {
  Gpu gpu(bench);
  constexpr std::uint64_t max_items = 4096;
  const std::uint64_t bytes =
      bench.options().bytes("batching.item") / sizeof(float) * sizeof(float);
  const Items items(max_items, bytes, gpu);
  Measurements rows({{"method", ColumnType::text}, {"items", ColumnType::integer}},
                    {"time", ColumnType::real, "us/item"});
  for (const std::uint64_t count : sizes_up_to(1, max_items, bench.is_quick() ? 8 : 4)) {
    double each = 0;
    const auto add = [&](const char* method, const std::function<void()>& copy) {
      items.clear();
      copy();
      bench.verify(items.has(count), method);
      const Measured seconds = gpu.time_call(copy).seconds;
      const double scale = 1e6 / static_cast<double>(count);
      if (each == 0) each = seconds.value;
      const double rate = static_cast<double>(count * bytes) / seconds.value / 1e9;
      const double gain = each / seconds.value;
      rows.add({method, static_cast<std::int64_t>(count)}, seconds.times(scale),
               rate / bench.ceiling("link_up"),
               gain > 1.1   ? "faster than a copy for each item"
               : gain < 0.9 ? "slower than a copy for each item"
                            : "");
    };
    add("a copy each", [&] { items.copy_each(count); });
    add("one copy with a pitch", [&] { items.copy_with_pitch(count); });
    add("packed, one copy", [&] { items.pack_and_copy(count); });
  }
  bench.note(
      formatted("An item has {} (batching.item). Times are measured by the host's clock, from the "
                "first call to the end of the last copy; they include packing.",
                format_size(bytes)));
  return std::move(rows).table();
}
#endif  // SHARDSTREAM_HAS_CUDA

}  // namespace shardstream::experiments::link
