// The time until a call returns, and the time until its work is done. Some calls of CUDA only
// enqueue their work, others wait for it. Behind a kernel that keeps the stream busy, the
// difference is plain: a call that only enqueues returns long before that kernel has ended.
#include <algorithm>
#include <bit>
#include <cstddef>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/statistics.hpp"
#include "core/units.hpp"
#include "experiments/context.hpp"
#include "experiments/device_clock.cuh"
#include "experiments/expected.hpp"
#include "experiments/experiment.hpp"
#include "experiments/formatted.hpp"
#include "experiments/link/host_memory.hpp"

namespace shardstream::experiments::link {

constexpr OptionRow options[] = {
    {"returns.size", OptionKind::size, "16MiB", "128KiB..", "Size of the large copies."},
};

Table returns(Bench& bench);

namespace {

constexpr std::uint64_t busy = 300'000;  // nanoseconds of the kernel before a call

/// Calls with a symbol take as long as those by address. Behind the kernel, the calls of the
/// guide's list take as long as in an idle stream, and the other ones also wait for the kernel.
double expected_time(const MeasuredRow& row) {
  std::string call = row.text("call");
  for (const std::string_view symbol : {"ToSymbol", "FromSymbol"}) {
    if (const std::size_t at = call.find(symbol); at != std::string::npos) {
      return row.measured({{"call", call.erase(at, symbol.size())}}, {"stream"});
    }
  }
  const auto has = [&](const char* words) { return call.find(words) != std::string::npos; };
  const bool asks = has("cudaGetSymbolAddress") || has("cudaPointerGetAttributes");
  const bool may_wait = has("Async") && has("pageable");
  if (asks || may_wait || row.text("stream") == "idle") {
    return std::numeric_limits<double>::quiet_NaN();
  }
  const bool is_early = has("launch") || has("inside the device") || has("cudaMemset") ||
                        has("Async") || (has(" up") && has("64 KiB"));
  return row.measured({{"stream", "idle"}}, {"call"}) + (is_early ? 0 : busy / 1e3);
}

}  // namespace

extern const Experiment about_returns = {
    .name = "returns",
    .group = "link",
    .summary = "Only some calls return before their work is done.",
    .explanation =
        {
            .question = "Which calls return before the GPU has done their work?",
            .varies =
                "Each call is made in an idle stream, and in a stream that a kernel keeps busy for "
                "0.3 ms. The host's clock measures the time until the call returns, and the time "
                "until its work is done (`done`). The calls are a launch, copies inside the "
                "device, copies from the host (up) of 64 KiB and of returns.size bytes, copies to "
                "the host (down), and memset. Copies to and from a symbol, a variable of the "
                "device, stand beside the same copies by address. Each of these calls but the "
                "launch has a variant whose name ends in Async. Two further calls only ask: "
                "cudaGetSymbolAddress, and cudaPointerGetAttributes about plain, pinned, device "
                "and managed memory; the remark has the answer. Calls without a stream use the "
                "legacy default stream, and so does the kernel before them.",
            .expectation =
                "The guide lists the calls that return early: launches, copies inside the device, "
                "copies of at most 64 KiB from the host, all Async functions, and memset; but an "
                "Async copy of pageable memory may wait. Expect these calls to return in a few "
                "microseconds, in a busy stream as in an idle one, and the other ones to wait for "
                "the kernel and for their own work, which add up. A copy with a symbol takes as "
                "long as one by address, because the runtime only looks up the address. A call "
                "that only asks has no work on the GPU, so expect it to return in about a "
                "microsecond, also behind the kernel. The remark compares each call with that "
                "list.",
            .pitfalls =
                "For copies without Async, the page of the Runtime API says otherwise: they wait "
                "for the stream before they copy pageable memory up, and for the end of a copy of "
                "pinned memory, whatever its size: so the copies of 64 KiB wait, too. The first "
                "call with a symbol may load its module and wait for the device, so that call is "
                "not timed. Plain memory is no error for cudaPointerGetAttributes: its type is "
                "cudaMemoryTypeUnregistered.",
        },
    .read_on = {{Guide::programming, "Concurrent Execution between Host and Device"},
                {Guide::runtime_api, "API Synchronization Behavior", "api-sync-behavior.html"},
                {Guide::programming, "Device Memory"},
                {Guide::runtime_api, "Unified Addressing", "group__CUDART__UNIFIED.html"}},
    .share = "the time until the call returned over the time until its work was done",
    .options = options,
    .expected = expected_time,
    .exercise = {.task = "Predict the time in us until these calls return behind a kernel of "
                         "300 us: a launch, cudaMemcpy up and down, and cudaMemcpyAsync down, each "
                         "copying 64 KiB of pinned memory in 8 us.",
                 .rows = {{{"call", "kernel launch"}, {"stream", "busy"}},
                          {{"call", "cudaMemcpy up, pinned, 64 KiB"}, {"stream", "busy"}},
                          {{"call", "cudaMemcpy down, pinned, 64 KiB"}, {"stream", "busy"}},
                          {{"call", "cudaMemcpyAsync down, pinned, 64 KiB"}, {"stream", "busy"}}}},
    .figure = {.look = Look::bars,
               .x = "call",
               .y = "returned",
               .panel = "stream",
               .log_y = true,
               .more_is_better = false},
    .run = with_cuda<returns>(),
};

#if SHARDSTREAM_HAS_CUDA
namespace {

constexpr std::uint64_t small = std::uint64_t{64} << 10;
constexpr int byte_of_memset = 0x3f;

/// Variables of the device, which the host can only name by calls with a symbol.
__device__ float symbol_from[small / sizeof(float)], symbol_to[small / sizeof(float)];

/// Runs for `nanoseconds` and counts its calls.
__global__ void run_for(std::uint64_t nanoseconds, unsigned* calls) {
  spin(nanoseconds);
  ++*calls;
}

/// The statement of the guide on a call. One that asks has no work on the device, and is not
/// listed.
enum class Guide { returns_early, waits, may_wait, asks };

/// Whether the name of a call ends in Async.
enum class Variant { plain, async };

std::string name(const char* function, Variant variant) {
  return std::string(function) + (variant == Variant::async ? "Async" : "");
}

struct Call {
  std::string name;
  cudaStream_t stream;  ///< in which its work is done
  Guide guide;
  std::function<void()> make;
  std::function<bool()> is_right;  ///< whether its work was done; waits for the device
  std::string answer = {};         ///< of a call that asks
};

/// A word of managed memory. The destructor frees it.
class ManagedWord {
 public:
  ManagedWord() { check(cudaMallocManaged(&data_, sizeof(float)), "cudaMallocManaged"); }
  ManagedWord(const ManagedWord&) = delete;
  ManagedWord& operator=(const ManagedWord&) = delete;
  ~ManagedWord() { device::cuda::report(cudaFree(data_), "cudaFree"); }

  const void* data() const { return data_; }

 private:
  void* data_ = nullptr;
};

/// Sources and targets on the host and on the device, with the calls that use them.
class Calls {
 public:
  Calls(std::uint64_t bytes, cudaStream_t stream);

  /// The calls refer to this object.
  std::vector<Call> all() const;
  /// Sets all targets to zero. Waits for the device.
  void clear() const;
  /// Enqueues a kernel that runs for `nanoseconds`.
  void launch(std::uint64_t nanoseconds, cudaStream_t stream) const {
    run_for<<<1, 1, 0, stream>>>(nanoseconds, launches_.data());
    check_launch("run_for");
  }

 private:
  /// Memory of one kind, with the numbers in `from`.
  struct Host {
    Host(HostKind of, std::uint64_t bytes) : kind(of), from(of, bytes), to(of, bytes) {
      write_numbers(from.as<float>(), bytes / sizeof(float), 0);
    }
    HostKind kind;
    HostMemory from, to;
  };

  void add_copies(std::vector<Call>& calls, Variant variant) const;
  Call copy(const std::string& what, Guide guide, void* to, const void* from, std::uint64_t bytes,
            cudaMemcpyKind kind, Variant variant) const;
  Call memset(Variant variant) const;
  Call to_symbol(Variant variant) const;
  Call from_symbol(Variant variant) const;
  Call symbol_address() const;
  Call attributes(const char* memory, const void* pointer, cudaMemoryType type) const;
  cudaStream_t stream_of(Variant variant) const {
    return variant == Variant::plain ? cudaStreamLegacy : stream_;
  }

  std::uint64_t bytes_;
  cudaStream_t stream_;
  DeviceArray<unsigned> launches_;
  DeviceArray<float> from_, to_;
  Host pageable_, pinned_;
  std::optional<ManagedWord> managed_;  ///< empty if the GPU has no managed memory
};

Calls::Calls(std::uint64_t bytes, cudaStream_t stream)
    : bytes_(bytes),
      stream_(stream),
      launches_(1),
      from_(bytes / sizeof(float)),
      to_(bytes / sizeof(float)),
      pageable_(HostKind::pageable, bytes),
      pinned_(HostKind::pinned, bytes) {
  write_numbers_on_device(from_.data(), from_.size(), 0, stream);
  check(cudaMemcpyToSymbol(symbol_from, pageable_.from.as(), small), "cudaMemcpyToSymbol");
  int has_managed = 0;
  check(cudaDeviceGetAttribute(&has_managed, cudaDevAttrManagedMemory, current_gpu()),
        "cudaDeviceGetAttribute");
  if (has_managed != 0) managed_.emplace();
}

void Calls::clear() const {
  launches_.clear(stream_);
  to_.clear(stream_);
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  for (const Host* host : {&pageable_, &pinned_}) std::fill_n(host->to.as(), bytes_, std::byte{0});
  check(cudaMemcpyToSymbol(symbol_to, pageable_.to.as(), small), "cudaMemcpyToSymbol");
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

std::vector<Call> Calls::all() const {
  std::vector<Call> calls = {{"kernel launch", stream_, Guide::returns_early,
                              [this] { launch(busy / 10, stream_); },
                              [this] { return launches_.read()[0] == 1; }}};
  for (const Variant variant : {Variant::plain, Variant::async}) {
    add_copies(calls, variant);
    calls.push_back(memset(variant));
    calls.push_back(to_symbol(variant));
    calls.push_back(from_symbol(variant));
  }
  calls.push_back(symbol_address());
  calls.push_back(attributes("plain", pageable_.from.as(), cudaMemoryTypeUnregistered));
  calls.push_back(attributes("pinned", pinned_.from.as(), cudaMemoryTypeHost));
  calls.push_back(attributes("device", from_.data(), cudaMemoryTypeDevice));
  if (managed_) calls.push_back(attributes("managed", managed_->data(), cudaMemoryTypeManaged));
  return calls;
}

Call Calls::copy(const std::string& what, Guide guide, void* to, const void* from,
                 std::uint64_t bytes, cudaMemcpyKind kind, Variant variant) const {
  const auto make = [=, this] {
    if (variant == Variant::plain) {
      check(cudaMemcpy(to, from, bytes, kind), "cudaMemcpy");
    } else {
      check(cudaMemcpyAsync(to, from, bytes, kind, stream_), "cudaMemcpyAsync");
    }
  };
  const auto is_right = [=] {
    const auto* const target = static_cast<const float*>(to);
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    return kind == cudaMemcpyDeviceToHost ? has_numbers(target, bytes / sizeof(float), 0)
                                          : device_has_numbers(target, bytes / sizeof(float), 0);
  };
  return {formatted("{} {}, {}", name("cudaMemcpy", variant), what, format_size(bytes)),
          stream_of(variant), guide, make, is_right};
}

void Calls::add_copies(std::vector<Call>& calls, Variant variant) const {
  calls.push_back(copy("inside the device", Guide::returns_early, to_.data(), from_.data(), bytes_,
                       cudaMemcpyDeviceToDevice, variant));
  for (const Host* host : {&pageable_, &pinned_}) {
    const std::string kind = word_of(host->kind);
    const Guide large = variant == Variant::plain          ? Guide::waits
                        : host->kind == HostKind::pageable ? Guide::may_wait
                                                           : Guide::returns_early;
    for (const std::uint64_t bytes : {small, bytes_}) {
      const bool is_listed = bytes == small && variant == Variant::plain;
      calls.push_back(copy("up, " + kind, is_listed ? Guide::returns_early : large, to_.data(),
                           host->from.as(), bytes, cudaMemcpyHostToDevice, variant));
    }
    calls.push_back(copy("down, " + kind, large, host->to.as(), from_.data(), small,
                         cudaMemcpyDeviceToHost, variant));
  }
}

Call Calls::memset(Variant variant) const {
  const auto make = [=, this] {
    if (variant == Variant::plain) {
      check(cudaMemset(to_.data(), byte_of_memset, bytes_), "cudaMemset");
    } else {
      check(cudaMemsetAsync(to_.data(), byte_of_memset, bytes_, stream_), "cudaMemsetAsync");
    }
  };
  const auto is_right = [this] {
    constexpr auto set = std::bit_cast<float>(0x01010101 * byte_of_memset);
    return std::ranges::all_of(to_.read(), [](float x) { return x == set; });
  };
  return {formatted("{}, {}", name("cudaMemset", variant), format_size(bytes_)), stream_of(variant),
          Guide::returns_early, make, is_right};
}

/// Copies to a symbol as cudaMemcpy copies to an address.
Call Calls::to_symbol(Variant variant) const {
  const void* const from = pageable_.from.as();
  const auto make = [=, this] {
    if (variant == Variant::plain) {
      check(cudaMemcpyToSymbol(symbol_to, from, small), "cudaMemcpyToSymbol");
    } else {
      check(cudaMemcpyToSymbolAsync(symbol_to, from, small, 0, cudaMemcpyHostToDevice, stream_),
            "cudaMemcpyToSymbolAsync");
    }
  };
  const auto is_right = [] {
    std::vector<float> found(small / sizeof(float));
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    check(cudaMemcpyFromSymbol(found.data(), symbol_to, small), "cudaMemcpyFromSymbol");
    return has_numbers(found.data(), found.size(), 0);
  };
  return {formatted("{} up, pageable, {}", name("cudaMemcpyToSymbol", variant), format_size(small)),
          stream_of(variant), variant == Variant::plain ? Guide::returns_early : Guide::may_wait,
          make, is_right};
}

Call Calls::from_symbol(Variant variant) const {
  auto* const to = pageable_.to.as<float>();
  const auto make = [=, this] {
    if (variant == Variant::plain) {
      check(cudaMemcpyFromSymbol(to, symbol_from, small), "cudaMemcpyFromSymbol");
    } else {
      check(cudaMemcpyFromSymbolAsync(to, symbol_from, small, 0, cudaMemcpyDeviceToHost, stream_),
            "cudaMemcpyFromSymbolAsync");
    }
  };
  const auto is_right = [=] {
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    return has_numbers(to, small / sizeof(float), 0);
  };
  return {
      formatted("{} down, pageable, {}", name("cudaMemcpyFromSymbol", variant), format_size(small)),
      stream_of(variant), variant == Variant::plain ? Guide::waits : Guide::may_wait, make,
      is_right};
}

/// Finds the address of a symbol, which has the numbers.
Call Calls::symbol_address() const {
  const auto found = std::make_shared<void*>(nullptr);
  const auto make = [=] {
    check(cudaGetSymbolAddress(found.get(), symbol_from), "cudaGetSymbolAddress");
  };
  const auto is_right = [=] {
    return device_has_numbers(static_cast<const float*>(*found), small / sizeof(float), 0);
  };
  return {"cudaGetSymbolAddress",
          stream_,
          Guide::asks,
          make,
          is_right,
          "an address, which copies and kernels can use"};
}

/// Asks for the kind of memory that `pointer` is in.
Call Calls::attributes(const char* memory, const void* pointer, cudaMemoryType type) const {
  const auto found = std::make_shared<cudaPointerAttributes>();
  const auto make = [=] {
    check(cudaPointerGetAttributes(found.get(), pointer), "cudaPointerGetAttributes");
  };
  const auto is_right = [=] {
    return found->type == type && (type != cudaMemoryTypeDevice || found->device == current_gpu());
  };
  const char* const answer = type == cudaMemoryTypeUnregistered ? "cudaMemoryTypeUnregistered"
                             : type == cudaMemoryTypeHost       ? "cudaMemoryTypeHost"
                             : type == cudaMemoryTypeDevice     ? "cudaMemoryTypeDevice"
                                                                : "cudaMemoryTypeManaged";
  return {formatted("cudaPointerGetAttributes, {}", std::string(memory)),
          stream_,
          Guide::asks,
          make,
          is_right,
          answer};
}

/// The two times of a call in seconds, with the median of the times until its work was done.
struct Times {
  Measured returned;
  double done;
};

/// Makes a call behind a kernel of `before` nanoseconds, or in an idle stream if that is 0.
Times time(Bench& bench, const Calls& calls, const Call& call, std::uint64_t before) {
  std::vector<double> done;
  const Timing timing = bench.sample([&] {
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    if (before > 0) calls.launch(before, call.stream);
    const auto begin = Clock::now();
    call.make();
    const double returned = seconds_since(begin);
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    done.push_back(seconds_since(begin));
    return returned;
  });
  return {timing.seconds, median(std::move(done))};
}

std::string remark_on_idle(const Times& times, const Call& call) {
  if (call.guide == Guide::asks) return "the answer is " + call.answer;
  return formatted("its work was done {:.1f} us later", (times.done - times.returned.value) * 1e6);
}

/// Compares a call behind a busy kernel with the guide.
std::string remark_on_busy(const Times& times, Guide guide) {
  const bool early = times.returned.value < 0.5 * static_cast<double>(busy) / 1e9;
  std::string text = early ? "returned before the kernel had ended" : "waited for the kernel";
  if (guide == Guide::asks) return early ? "did not wait for the kernel" : text;
  if (guide == Guide::may_wait) return text + "; the guide: may wait";
  return text + (early == (guide == Guide::returns_early) ? ", as the guide says"
                                                          : ", unlike the guide's list");
}

}  // namespace

Table returns(Bench& bench) {
  Gpu gpu(bench);
  const std::uint64_t bytes =
      bench.bytes("returns.size", {.of_host = 0.2}) / sizeof(float) * sizeof(float);
  const Calls calls(bytes, gpu.stream());
  Measurements rows(
      {{"call", ColumnType::text}, {"stream", ColumnType::text}, {"done", ColumnType::real, "us"}},
      {"returned", ColumnType::real, "us"});
  for (const Call& call : calls.all()) {
    calls.clear();
    call.make();
    bench.verify(call.is_right(), call.name);
    for (const std::uint64_t before : {std::uint64_t{0}, busy}) {
      const Times times = time(bench, calls, call, before);
      rows.add({call.name, before > 0 ? "busy" : "idle", times.done * 1e6},
               times.returned.times(1e6), times.returned.value / times.done,
               before > 0 ? remark_on_busy(times, call.guide) : remark_on_idle(times, call));
    }
  }
  return std::move(rows).table();
}
#endif  // SHARDSTREAM_HAS_CUDA

}  // namespace shardstream::experiments::link
