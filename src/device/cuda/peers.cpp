#include "device/cuda/peers.hpp"

#include <cuda_runtime_api.h>

#include <array>

namespace shardstream::device::cuda {
namespace {

/// An observation must not end a run, nor leave an error behind for the next launch to find.
bool holds(cudaError_t status) {
  if (status == cudaSuccess) return true;
  (void)cudaGetLastError();
  return false;
}

int visible_count() {
  int count = 0;
  return holds(cudaGetDeviceCount(&count)) ? count : 0;
}

/// "0000:1b:00.0"; empty if unknown.
std::string pci_of(int ordinal) {
  std::array<char, 32> text{};
  if (!holds(cudaDeviceGetPCIBusId(text.data(), static_cast<int>(text.size()), ordinal))) return "";
  std::string pci = text.data();
  for (char& c : pci) {
    if (c >= 'A' && c <= 'F') c = static_cast<char>(c - 'A' + 'a');
  }
  return pci;
}

}  // namespace

std::vector<PeerAccess> peer_access() {
  std::vector<PeerAccess> pairs;
  const int count = visible_count();
  std::vector<std::string> pci;
  for (int gpu = 0; gpu < count; ++gpu) pci.push_back(pci_of(gpu));
  for (int from = 0; from < count; ++from) {
    for (int to = 0; to < count; ++to) {
      int can = 0, rank = 0;
      if (from == to || !holds(cudaDeviceCanAccessPeer(&can, from, to))) continue;
      const bool ranked =
          holds(cudaDeviceGetP2PAttribute(&rank, cudaDevP2PAttrPerformanceRank, from, to));
      pairs.push_back({.from = pci[static_cast<std::size_t>(from)],
                       .to = pci[static_cast<std::size_t>(to)],
                       .can = can != 0,
                       .performance_rank = ranked ? rank : -1});
    }
  }
  return pairs;
}

}  // namespace shardstream::device::cuda
