#include <algorithm>
#include <cmath>
#include <string>

#include "core/error.hpp"
#include "experiments/context.hpp"
#include "experiments/device_clock.cuh"
#include "experiments/formatted.hpp"
#include "experiments/gpu.hpp"

namespace shardstream::experiments {
namespace {

// A sample has so many calls that it takes about this time, in seconds. Events add some
// microseconds to a sample, most of all to copies.
constexpr double sample_length = 200e-6;
constexpr double max_calls = 256;  // fewer than a stream can queue without blocking the host

/// Blocks the stream until `*opened` is `number`. After `limit` nanoseconds it gives up and stores
/// `number` in `*gave_up`.
__global__ void wait_at_gate(const volatile unsigned* opened, unsigned number, std::uint64_t limit,
                             unsigned* gave_up) {
  const std::uint64_t begin = global_nanoseconds();
  while (*opened != number && global_nanoseconds() - begin < limit) {
  }
  if (*opened != number) *gave_up = number;
}

__global__ void fill_numbers(float* x, std::uint64_t count) {
  const std::uint64_t step = std::uint64_t{gridDim.x} * blockDim.x;
  for (std::uint64_t i = blockIdx.x * std::uint64_t{blockDim.x} + threadIdx.x; i < count;
       i += step) {
    x[i] = unit_number(i);
  }
}

/// The message if enqueuing a sample took `seconds`, longer than `limit`.
std::string not_enqueued(double seconds, double limit) {
  return formatted(
      "the experiment cannot be timed: enqueuing a sample took {:.1f} s, longer than the {:g} s "
      "for which the stream is blocked, because calls wait for the GPU or are slow, as under "
      "compute-sanitizer, a debugger or CUDA_LAUNCH_BLOCKING=1: run bench without them",
      seconds, limit);
}

}  // namespace

Gate::Gate(double limit)
    : limit_(limit), opened_(1, cudaHostAllocMapped), gave_up_(1, cudaHostAllocMapped) {
  opened_[0] = gave_up_[0] = 0;
}

double Gate::usual_limit() {
  int stops_long_kernels = 0;
  check(cudaDeviceGetAttribute(&stops_long_kernels, cudaDevAttrKernelExecTimeout, current_gpu()),
        "cudaDeviceGetAttribute");
  return stops_long_kernels != 0 ? 1 : 10;
}

void Gate::close(cudaStream_t stream) {
  wait_at_gate<<<1, 1, 0, stream>>>(opened_.data(), ++closed_,
                                    static_cast<std::uint64_t>(limit_ * 1e9), gave_up_.data());
  check_launch("wait_at_gate");
}

void Gate::open() {
  *const_cast<volatile unsigned*>(opened_.data()) = closed_;
}

bool Gate::has_given_up() const {
  return *const_cast<const volatile unsigned*>(gave_up_.data()) == closed_;
}

Gpu::Gpu(Bench& bench, double gate_limit)
    : bench_(bench),
      stream_(device::Priority::normal),
      begin_(true),
      end_(true),
      gate_(gate_limit) {
  check(cudaGetDeviceProperties(&properties_, current_gpu()), "cudaGetDeviceProperties");
}

double Gpu::seconds_of(const std::function<void()>& enqueue, unsigned calls) {
  const auto start = Clock::now();
  {
    const ClosedGateGuard closed(gate_, stream());
    check(cudaEventRecord(begin_.get(), stream()), "cudaEventRecord");
    for (unsigned i = 0; i < calls; ++i) enqueue();
    check(cudaEventRecord(end_.get(), stream()), "cudaEventRecord");
  }
  const double enqueuing = seconds_since(start);
  check(cudaEventSynchronize(end_.get()), "cudaEventSynchronize");
  if (gate_.has_given_up()) throw Error(not_enqueued(enqueuing, gate_.limit()));
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, begin_.get(), end_.get()), "cudaEventElapsedTime");
  return static_cast<double>(milliseconds) / 1e3 / calls;
}

Timing Gpu::time(const std::function<void()>& enqueue) {
  enqueue();  // loads the kernels; for that, the driver may wait for the device
  synchronize();
  const double once = bench_.max_of_ranks(seconds_of(enqueue, 1));
  const auto calls =
      static_cast<unsigned>(std::clamp(std::ceil(sample_length / once), 1.0, max_calls));
  return bench_.sample([&] { return seconds_of(enqueue, calls); });
}

Timing Gpu::time_after(const std::function<void()>& prepare, const std::function<void()>& enqueue) {
  return bench_.sample([&] {
    prepare();
    synchronize();
    return seconds_of(enqueue, 1);
  });
}

Timing Gpu::time_call(const std::function<void()>& call) {
  return bench_.sample([&] {
    synchronize();
    const auto begin = Clock::now();
    call();
    synchronize();
    return seconds_since(begin);
  });
}

SideStreams::SideStreams(unsigned count, unsigned flags) : forked_(false) {
  for (unsigned i = 0; i < count; ++i) {
    streams_.emplace_back(device::Priority::normal, flags);
    ended_.emplace_back(false);
  }
}

void SideStreams::fork(cudaStream_t main) const {
  check(cudaEventRecord(forked_.get(), main), "cudaEventRecord");
  for (const auto& stream : streams_) {
    check(cudaStreamWaitEvent(stream.get(), forked_.get()), "cudaStreamWaitEvent");
  }
}

void SideStreams::join(cudaStream_t main) const {
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    check(cudaEventRecord(ended_[i].get(), streams_[i].get()), "cudaEventRecord");
    check(cudaStreamWaitEvent(main, ended_[i].get()), "cudaStreamWaitEvent");
  }
}

PeerAccessGuard::PeerAccessGuard(int other) : own_(current_gpu()), other_(other) {
  int reaches = 0;
  check(cudaDeviceCanAccessPeer(&reaches, own_, other), "cudaDeviceCanAccessPeer");
  if (reaches == 0) {
    throw NotAvailable(formatted("GPU {} cannot access the memory of GPU {}", own_, other));
  }
  const cudaError_t status = cudaDeviceEnablePeerAccess(other, 0);
  was_enabled_ = status == cudaErrorPeerAccessAlreadyEnabled;
  if (was_enabled_) {
    (void)cudaGetLastError();  // clears "already enabled"
  } else {
    check(status, "cudaDeviceEnablePeerAccess");
  }
}

PeerAccessGuard::~PeerAccessGuard() {
  if (was_enabled_) return;
  int current = 0;
  device::cuda::report(cudaGetDevice(&current), "cudaGetDevice");
  device::cuda::report(cudaSetDevice(own_), "cudaSetDevice");
  device::cuda::report(cudaDeviceDisablePeerAccess(other_), "cudaDeviceDisablePeerAccess");
  device::cuda::report(cudaSetDevice(current), "cudaSetDevice");
}

void WindowGuard::replace(const cudaAccessPolicyWindow& window) const {
  cudaStreamAttrValue value{};
  value.accessPolicyWindow = window;
  check(cudaStreamSetAttribute(stream_, cudaStreamAttributeAccessPolicyWindow, &value),
        "cudaStreamSetAttribute");
}

WindowGuard::~WindowGuard() {
  cudaStreamAttrValue none{};
  none.accessPolicyWindow = no_window();
  device::cuda::report(
      cudaStreamSetAttribute(stream_, cudaStreamAttributeAccessPolicyWindow, &none),
      "cudaStreamSetAttribute");
  device::cuda::report(cudaCtxResetPersistingL2Cache(), "cudaCtxResetPersistingL2Cache");
}

void fill(const DeviceArray<float>& array, cudaStream_t stream) {
  constexpr unsigned threads = 256, blocks = 2048;
  fill_numbers<<<blocks, threads, 0, stream>>>(array.data(), array.size());
  check_launch("fill_numbers");
  check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
}

}  // namespace shardstream::experiments
