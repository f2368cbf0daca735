// Packing of small copies. Each copy takes a few microseconds, however small it is. It takes less
// to pack many items into one buffer, copy that, and let the receiver put the items in their
// places.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "core/units.hpp"
#include "experiments/context.hpp"
#include "experiments/expected.hpp"
#include "experiments/experiment.hpp"
#include "experiments/formatted.hpp"
#include "experiments/link/host_memory.hpp"

namespace shardstream::experiments::link {

constexpr OptionRow options[] = {
    {"batching.item", OptionKind::size, "1KiB", "4..64KiB", "Size of an item."},
};
constexpr Axis axes[] = {
    {.name = "way", .unit = "", .values = "up|down", .sentence = "The direction of the copies."},
    {.name = "items",
     .unit = "",
     .values = "1..4096*8",
     .range = "1..4096",
     .sentence = "The number of items."},
    {.name = "method",
     .unit = "",
     .values = "a copy each|one batch|one copy with a pitch|packed|packed and unpacked",
     .sentence = "The method that copies the items."},
};

Table batching(Bench& bench);

namespace {

/// The time per item of copies one by one is a line through those of 1 and 8 items. One large copy
/// takes the time of a single item, and each further item its time on the link.
double expected_time(const MeasuredRow& row) {
  const std::string method = row.text("method"), way = row.text("way");
  const double items = row["items"];
  const auto of = [&](std::string_view other, std::string_view count) {
    return row.measured({{"method", other}, {"items", count}}, {"way"});
  };
  const double single = of("a copy each", "1");
  // The share is the time on the link over that of the copy.
  const double on_link =
      single * row.of_row("share", {{"method", "a copy each"}, {"items", "1"}}, {"way"});
  if (method == "one copy with a pitch") return (single + (items - 1) * on_link) / items;
  if (method == "packed" && way == "down") {
    return (of(method, "1") + (items - 1) * on_link) / items;
  }
  if (method == "packed and unpacked" && way == "up") {
    const double kernel = of(method, "1") - of("packed", "1");
    return row.measured({{"method", "packed"}}, {"way", "items"}) + kernel / items;
  }
  if (method != "a copy each" && method != "one batch") {
    return std::numeric_limits<double>::quiet_NaN();
  }
  if (items == 1) return single;
  const double first = of(method, "1"), further = (8 * of(method, "8") - first) / 7;
  return (first + (items - 1) * further) / items;
}

}  // namespace

extern const Experiment about_batching = {
    .name = "batching",
    .group = "link",
    .summary = "One packed copy is faster than many small copies, with packing and unpacking.",
    .explanation =
        {
            .question = "From how many small pieces on is it faster to pack them into one copy?",
            .varies =
                "1 to 4096 items of batching.item bytes lie in pinned memory of the host with gaps "
                "between them, like fields of records. They are copied to the same places on the "
                "device (up), and from there to the host (down). Methods: a copy for each item; "
                "`one batch`, in which one call makes all these copies (cudaMemcpyBatchAsync, CUDA "
                "12.8); one 2-D copy, in which the items are rows with a pitch, which needs equal "
                "gaps; `packed`, in which the sender packs the items, one copy moves them, and the "
                "receiver takes them as they are; and `packed and unpacked`, in which the receiver "
                "also puts them in their places. The processor packs and unpacks on the host with "
                "memcpy; on the device a kernel does, with a block for each item and a list of "
                "places.",
            .expectation =
                "Each copy takes some microseconds whatever its size, the first one more than each "
                "further one: the times of 1 and 8 items show both. The same holds for a batch. "
                "One large copy takes the time of the first, and its other bytes at the rate of "
                "the link. Expect packing to win with more than a few items, and unpacking on the "
                "device to cost the time of one small kernel. Expect a batch to be faster than a "
                "call for each copy, and slower than a packed copy, because the GPU still copies "
                "each item. On the host, one thread packs and unpacks, which takes longer than the "
                "link for many items: then expect the copy with a pitch to win, because the GPU "
                "finds the items by itself.",
            .pitfalls =
                "A comparison of the copies alone would leave out the packing. The host's clock "
                "measures from the first call to the end of the work, with all packing and "
                "unpacking. The copies of a batch may be made in any order, so none of them may "
                "need another one, and the driver may join small ones: then a large batch takes "
                "less than a line through 1 and 8 items. The rate of one thread that packs is not "
                "known before, so its rows have no expected value.",
        },
    .read_on = {{Guide::best_practices, "Data Transfer Between Host and Device"},
                {Guide::runtime_api, "Memory Management", "group__CUDART__MEMORY.html"}},
    .share = "of the rate of large copies in the same direction",
    .options = options,
    .axes = axes,
    .expected = expected_time,
    .exercise = {.task = "Predict the time in us/item of uploads of 64 and 4096 items of 1 KiB, "
                         "with a copy each and with one copy with a pitch, if the first copy takes "
                         "7 us, each further one 2.5 us, and the link carries 55 GB/s.",
                 .rows = {{{"way", "up"}, {"method", "a copy each"}, {"items", "64"}},
                          {{"way", "up"}, {"method", "a copy each"}, {"items", "4096"}},
                          {{"way", "up"}, {"method", "one copy with a pitch"}, {"items", "64"}},
                          {{"way", "up"}, {"method", "one copy with a pitch"}, {"items", "4096"}}}},
    .figure = {.look = Look::lines,
               .x = "items",
               .y = "time",
               .series = "method",
               .panel = "way",
               .log_x = true,
               .log_y = true,
               .more_is_better = false},
    .needs = {.ceilings = {"link_up", "link_down"}},
    .run = with_cuda<batching>(),
};

#if SHARDSTREAM_HAS_CUDA
namespace {

constexpr unsigned threads = 128;

/// Block b copies item b of `words` words to its place.
__global__ void scatter(const float* packed, unsigned words, const unsigned* places, float* to) {
  const float* const item = packed + std::size_t{blockIdx.x} * words;
  for (unsigned i = threadIdx.x; i < words; i += threads) to[places[blockIdx.x] + i] = item[i];
}

/// Block b copies item b of `words` words from its place.
__global__ void gather(const float* from, unsigned words, const unsigned* places, float* packed) {
  float* const item = packed + std::size_t{blockIdx.x} * words;
  for (unsigned i = threadIdx.x; i < words; i += threads) item[i] = from[places[blockIdx.x] + i];
}

// The enumerators are in the order of the words of the axes.
enum class CopyDirection { up, down };
enum class Method { each, batch, with_pitch, packed, unpacked };

/// Copies of the same stream that one call enqueues (cudaMemcpyBatchAsync, CUDA 12.8). They may be
/// done in any order. Returns cudaErrorNotSupported if CUDA has no batches.
class Batch {
 public:
  /// Where a side of the copies is: on the host or on a device.
  static cudaMemLocation location(cudaMemLocationType type, int id) {
    cudaMemLocation place{};
    place.type = type;
    place.id = id;
    return place;
  }

  void add(void* to, void* from, std::size_t bytes) {
    to_.push_back(to);
    from_.push_back(from);
    bytes_.push_back(bytes);
  }

  /// Enqueues the first `count` copies. The sources are read in the order of the stream.
  cudaError_t copy([[maybe_unused]] std::size_t count,
                   [[maybe_unused]] const cudaMemLocation& source,
                   [[maybe_unused]] const cudaMemLocation& target,
                   [[maybe_unused]] cudaStream_t stream) {
#if CUDART_VERSION >= 12080
    cudaMemcpyAttributes attributes{};
    attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
    attributes.srcLocHint = source;
    attributes.dstLocHint = target;
    std::size_t first = 0;  // the attributes are those of the copies from here on
#if CUDART_VERSION >= 13000
    return cudaMemcpyBatchAsync(to_.data(), from_.data(), bytes_.data(), count, &attributes, &first,
                                1, stream);
#else
    std::size_t failed = 0;
    return cudaMemcpyBatchAsync(to_.data(), from_.data(), bytes_.data(), count, &attributes, &first,
                                1, &failed, stream);
#endif
#else
    return cudaErrorNotSupported;
#endif
  }

 private:
  std::vector<void*> to_, from_;
  std::vector<std::size_t> bytes_;
};

/// Places of items, in words: there is a gap of one item after each.
std::vector<unsigned> places_of(unsigned count, unsigned words) {
  std::vector<unsigned> places;
  for (unsigned i = 0; i < count; ++i) places.push_back(2 * i * words);
  return places;
}

/// Items in their places on the host and on the device, and a packed buffer on each side.
class Items {
 public:
  Items(unsigned max_count, unsigned words, Gpu& gpu)
      : words_(words),
        gpu_(gpu),
        places_(places_of(max_count, words)),
        places_on_device_(std::span<const unsigned>(places_)),
        host_(HostKind::pinned, 2 * bytes(max_count)),
        packed_(HostKind::pinned, bytes(max_count)),
        device_(host_.bytes() / sizeof(float)),
        packed_on_device_(packed_.bytes() / sizeof(float)),
        on_host_(Batch::location(cudaMemLocationTypeHost, 0)),
        on_device_(Batch::location(cudaMemLocationTypeDevice, current_gpu())) {
    for (const unsigned place : places_) {
      float *const here = host_.as<float>() + place, *const there = device_.data() + place;
      up_.add(there, here, bytes(1));
      down_.add(here, there, bytes(1));
    }
  }

  std::size_t bytes(unsigned count) const { return std::size_t{count} * words_ * sizeof(float); }

  void copy(CopyDirection way, Method method, unsigned count) {
    switch (method) {
      case Method::each:
        return copy_each(way, count);
      case Method::batch:
        return check(copy_batch(way, count), "cudaMemcpyBatchAsync");
      case Method::with_pitch:
        return copy_with_pitch(way, count);
      case Method::packed:
      case Method::unpacked:
        return way == CopyDirection::up ? pack_and_upload(method, count)
                                        : pack_and_download(method, count);
    }
  }

  /// Whether CUDA and the driver have copies in batches.
  bool has_batches() {
    const cudaError_t status = copy_batch(CopyDirection::up, 1);
    gpu_.synchronize();
    if (status != cudaErrorNotSupported && status != cudaErrorCallRequiresNewerDriver) {
      check(status, "cudaMemcpyBatchAsync");
      return true;
    }
    (void)cudaGetLastError();
    return false;
  }

  /// Writes numbers to the places of the first `count` items of the sender. All other words of
  /// these items and their gaps become zero, on both sides.
  void prepare(CopyDirection way, unsigned count) const {
    const std::size_t words = std::size_t{count} * words_;
    std::fill_n(host_.as<float>(), 2 * words, 0.0F);
    std::fill_n(packed_.as<float>(), words, 0.0F);
    for (unsigned i = 0; i < count; ++i) {
      write_numbers(host_.as<float>() + places_[i], words_, std::uint64_t{i} * words_);
    }
    packed_on_device_.clear(gpu_.stream());
    device_.clear(gpu_.stream());
    if (way == CopyDirection::down) {
      transfer(CopyDirection::up, device_.data(), host_.as<float>(), 2 * bytes(count));
      gpu_.synchronize();
      std::fill_n(host_.as<float>(), 2 * words, 0.0F);
    }
    gpu_.synchronize();
  }

  /// Whether the receiver has `count` items, in their places and with zeros between them, or
  /// packed.
  bool are_right(CopyDirection way, Method method, unsigned count) const {
    gpu_.synchronize();
    const std::uint64_t size = std::uint64_t{count} * words_;
    if (method == Method::packed) {
      return way == CopyDirection::up ? device_has_numbers(packed_on_device_.data(), size, 0)
                                      : has_numbers(packed_.as<float>(), size, 0);
    }
    if (way == CopyDirection::down) return are_in_places(host_.as<float>(), count);
    return are_in_places(device_.read(0, 2 * size).data(), count);
  }

 private:
  void copy_each(CopyDirection way, unsigned count) const {
    for (unsigned i = 0; i < count; ++i) {
      transfer(way, device_.data() + places_[i], host_.as<float>() + places_[i], bytes(1));
    }
  }

  cudaError_t copy_batch(CopyDirection way, unsigned count) {
    return way == CopyDirection::up ? up_.copy(count, on_host_, on_device_, gpu_.stream())
                                    : down_.copy(count, on_device_, on_host_, gpu_.stream());
  }

  /// Possible because the distance between items (the pitch) is constant.
  void copy_with_pitch(CopyDirection way, unsigned count) const {
    const std::size_t pitch = 2 * bytes(1);
    const bool up = way == CopyDirection::up;
    check(cudaMemcpy2DAsync(up ? device_.data() : host_.as<float>(), pitch,
                            up ? host_.as<float>() : device_.data(), pitch, bytes(1), count,
                            up ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost, gpu_.stream()),
          "cudaMemcpy2DAsync");
  }

  /// The processor packs the items, one copy moves them, and a kernel may unpack them.
  void pack_and_upload(Method method, unsigned count) const {
    for (unsigned i = 0; i < count; ++i) {
      std::memcpy(packed_item(i), host_.as<float>() + places_[i], bytes(1));
    }
    transfer(CopyDirection::up, packed_on_device_.data(), packed_.as<float>(), bytes(count));
    if (method == Method::packed) return;
    scatter<<<count, threads, 0, gpu_.stream()>>>(packed_on_device_.data(), words_,
                                                  places_on_device_.data(), device_.data());
    check_launch("scatter");
  }

  /// A kernel packs the items, one copy moves them, and the processor may unpack them.
  void pack_and_download(Method method, unsigned count) const {
    gather<<<count, threads, 0, gpu_.stream()>>>(device_.data(), words_, places_on_device_.data(),
                                                 packed_on_device_.data());
    check_launch("gather");
    transfer(CopyDirection::down, packed_on_device_.data(), packed_.as<float>(), bytes(count));
    if (method == Method::packed) return;
    gpu_.synchronize();
    for (unsigned i = 0; i < count; ++i) {
      std::memcpy(host_.as<float>() + places_[i], packed_item(i), bytes(1));
    }
  }

  float* packed_item(unsigned i) const { return packed_.as<float>() + std::size_t{i} * words_; }

  void transfer(CopyDirection way, float* on_device, float* on_host, std::size_t size) const {
    if (way == CopyDirection::up) {
      check(cudaMemcpyAsync(on_device, on_host, size, cudaMemcpyHostToDevice, gpu_.stream()),
            "cudaMemcpyAsync");
    } else {
      check(cudaMemcpyAsync(on_host, on_device, size, cudaMemcpyDeviceToHost, gpu_.stream()),
            "cudaMemcpyAsync");
    }
  }

  bool are_in_places(const float* data, unsigned count) const {
    for (unsigned i = 0; i < count; ++i) {
      const float* const item = data + places_[i];
      if (!has_numbers(item, words_, std::uint64_t{i} * words_)) return false;
      if (!std::all_of(item + words_, item + 2 * words_, [](float x) { return x == 0; })) {
        return false;
      }
    }
    return true;
  }

  unsigned words_;  ///< of an item
  Gpu& gpu_;
  std::vector<unsigned> places_;
  DeviceArray<unsigned> places_on_device_;
  HostMemory host_, packed_;
  DeviceArray<float> device_, packed_on_device_;
  cudaMemLocation on_host_, on_device_;
  Batch up_, down_;
};

}  // namespace

Table batching(Bench& bench) {
  Gpu gpu(bench);
  constexpr unsigned max_items = 4096;
  const auto words = static_cast<unsigned>(bench.options().bytes("batching.item") / sizeof(float));
  Items items(max_items, words, gpu);
  if (!items.has_batches()) {
    bench.note(
        "Copies in batches are not available: they need CUDA 12.8 and a driver of that version.");
  }
  Measurements rows(
      {{"way", ColumnType::text}, {"method", ColumnType::text}, {"items", ColumnType::integer}},
      {"time", ColumnType::real, "us/item"});
  double each = std::nan("");  // seconds of the first method, if it is measured
  for (const Point& point : bench.points()) {
    const auto way = static_cast<CopyDirection>(point["way"]);
    const auto method = static_cast<Method>(point["method"]);
    const auto count = static_cast<unsigned>(point["items"]);
    if (method == Method::batch && !items.has_batches()) continue;
    const auto copy = [&] { items.copy(way, method, count); };
    items.prepare(way, count);
    copy();
    bench.verify(items.are_right(way, method, count), to_text(point.cell("method")));
    const Measured seconds = gpu.time_call(copy).seconds;
    if (method == Method::each) each = seconds.value;
    const double rate = static_cast<double>(items.bytes(count)) / seconds.value / 1e9;
    const double gain = each / seconds.value;
    rows.add({point.cell("way"), point.cell("method"), point.cell("items")},
             seconds.times(1e6 / count),
             rate / bench.ceiling(way == CopyDirection::up ? "link_up" : "link_down"),
             gain > 1.1   ? "faster than a copy for each item"
             : gain < 0.9 ? "slower than a copy for each item"
                          : "");
  }
  bench.note(formatted("An item has {} (batching.item).", format_size(items.bytes(1))));
  return std::move(rows).table();
}
#endif  // SHARDSTREAM_HAS_CUDA

}  // namespace shardstream::experiments::link
