#include "experiments/link/host_memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>

#include "core/units.hpp"
#include "device/host/process_memory.hpp"
#include "experiments/count_wrong.cuh"
#include "experiments/formatted.hpp"

namespace shardstream::experiments::link {
namespace {

constexpr unsigned threads = 256;
constexpr std::size_t page = 4096;

__global__ void write_all(float* to, std::uint64_t count, std::uint64_t salt) {
  const std::uint64_t i = blockIdx.x * std::uint64_t{threads} + threadIdx.x;
  if (i < count) to[i] = unit_number(salt + i);
}

struct IsWrong {
  const float* from;
  std::uint64_t salt;
  __device__ bool operator()(std::uint64_t i) const { return from[i] != unit_number(salt + i); }
};

std::uint64_t whole_pages(std::uint64_t bytes) {
  return (bytes + page - 1) / page * page;
}

[[noreturn]] void fail_to_allocate(std::uint64_t bytes) {
  throw Error(formatted("the host cannot allocate {}: choose a smaller size", format_size(bytes)));
}

/// Resident anonymous memory in pages of 4 KiB.
void* map_small_pages(std::uint64_t bytes) {
  void* const data =
      mmap(nullptr, whole_pages(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) fail_to_allocate(bytes);
  madvise(data, whole_pages(bytes), MADV_NOHUGEPAGE);  // otherwise the system may use huge pages
  device::host::touch_pages(data, bytes, 1);
  return data;
}

void* pageable_memory(std::uint64_t bytes) {
  void* const data = std::aligned_alloc(page, whole_pages(bytes));
  if (data == nullptr) fail_to_allocate(bytes);
  device::host::touch_pages(data, bytes, 1);
  return data;
}

/// Resident pages that cudaHostRegister can pin.
void* map_for(HostKind kind, std::uint64_t bytes) {
  if (kind == HostKind::registered) return map_small_pages(bytes);
  void* const data = device::host::map_pages(bytes);
  device::host::touch_pages(data, bytes, 1);
  return data;
}

void unmap(HostKind kind, void* data, std::uint64_t bytes) {
  if (kind == HostKind::registered) {
    munmap(data, whole_pages(bytes));
  } else {
    device::host::unmap_pages(data, bytes);
  }
}

}  // namespace

const char* word_of(HostKind kind) {
  switch (kind) {
    case HostKind::pageable:
      return "pageable";
    case HostKind::pinned:
      return "pinned";
    case HostKind::write_combined:
      return "write-combined";
    case HostKind::registered:
      return "registered";
    case HostKind::registered_huge:
      return "registered, huge pages";
  }
  return "";
}

HostMemory::HostMemory(HostKind kind, std::uint64_t bytes) : kind_(kind), bytes_(bytes) {
  switch (kind) {
    case HostKind::pageable:
      data_ = pageable_memory(bytes);
      return;
    case HostKind::pinned:
      check(cudaHostAlloc(&data_, bytes, cudaHostAllocDefault), "cudaHostAlloc");
      return;
    case HostKind::write_combined:
      check(cudaHostAlloc(&data_, bytes, cudaHostAllocWriteCombined), "cudaHostAlloc");
      return;
    case HostKind::registered:
    case HostKind::registered_huge:
      break;
  }
  data_ = map_for(kind, bytes);
  const cudaError_t status = cudaHostRegister(data_, bytes, cudaHostRegisterDefault);
  if (status != cudaSuccess) unmap(kind, data_, bytes);
  check(status, "cudaHostRegister");
}

HostMemory::~HostMemory() {
  switch (kind_) {
    case HostKind::pageable:
      std::free(data_);
      return;
    case HostKind::pinned:
    case HostKind::write_combined:
      device::cuda::report(cudaFreeHost(data_), "cudaFreeHost");
      return;
    case HostKind::registered:
    case HostKind::registered_huge:
      break;
  }
  device::cuda::report(cudaHostUnregister(data_), "cudaHostUnregister");
  unmap(kind_, data_, bytes_);
}

void write_numbers(float* to, std::uint64_t count, std::uint64_t salt) {
  for (std::uint64_t i = 0; i < count; ++i) to[i] = unit_number(salt + i);
}

void write_numbers_on_device(float* to, std::uint64_t count, std::uint64_t salt,
                             cudaStream_t stream) {
  write_all<<<blocks_for(count, threads), threads, 0, stream>>>(to, count, salt);
  check_launch("write_all");
}

bool has_numbers(const float* from, std::uint64_t count, std::uint64_t salt) {
  const std::uint64_t step = std::max<std::uint64_t>(1, count / 1024);
  for (std::uint64_t i = 0; i < count; i += step) {
    if (from[i] != unit_number(salt + i)) return false;
  }
  return from[count - 1] == unit_number(salt + count - 1);
}

bool device_has_numbers(const float* from, std::uint64_t count, std::uint64_t salt) {
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  return count_wrong(count, IsWrong{from, salt}, nullptr) == 0;
}

}  // namespace shardstream::experiments::link
