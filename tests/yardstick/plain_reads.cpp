// What plain code reaches on a file that `shardstream generate` wrote.
//
//   plain_reads h5dread FILE.h5:/PATH [SECONDS=10]
//     H5Dread of 256 MiB at a time into ordinary memory and, in a build with CUDA, cudaMemcpy from
//     there, one after the other
//   plain_reads direct FILE.h5 [THREADS=32] [SECONDS=10]
//     preads of 4 MiB past the page cache, by all threads at once
//
// Both read from the beginning until the end, or until the time is over.
#include <fcntl.h>
#include <hdf5.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/descriptor.hpp"
#include "core/parallel.hpp"
#include "gpu_copy.hpp"

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void print(const char* what, std::uint64_t bytes, double seconds) {
  std::printf("%s=%.4g GB/s\nbytes=%llu B\ntime=%.4g s\n", what,
              static_cast<double>(bytes) / seconds / 1e9, static_cast<unsigned long long>(bytes),
              seconds);
}

template <class Status>
Status checked(Status status, const char* call) {
  if (status < 0) throw std::runtime_error(std::string(call) + " failed");
  return status;
}

/// The data set's handles stay open until the program ends.
void h5dread(const std::string& name, double limit) {
  const auto colon = name.rfind(":/");
  if (colon == name.npos) throw std::runtime_error("FILE.h5:/PATH is needed, not " + name);
  const hid_t file =
      checked(H5Fopen(name.substr(0, colon).c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), "H5Fopen");
  const hid_t set =
      checked(H5Dopen2(file, name.substr(colon + 1).c_str(), H5P_DEFAULT), "H5Dopen2");
  const hid_t type =
      checked(H5Tget_native_type(checked(H5Dget_type(set), "H5Dget_type"), H5T_DIR_DEFAULT),
              "H5Tget_native_type");
  const hid_t space = checked(H5Dget_space(set), "H5Dget_space");
  if (H5Sget_simple_extent_ndims(space) != 1) throw std::runtime_error("one dimension is needed");
  const auto elements = static_cast<hsize_t>(
      checked(H5Sget_simple_extent_npoints(space), "H5Sget_simple_extent_npoints"));
  constexpr std::size_t block = std::size_t{256} << 20;
  const std::size_t element = H5Tget_size(type);
  std::vector<std::byte> memory(block);
  const Copy copy = copy_to_gpu(block);

  const auto read = [&](hsize_t first) {
    const hsize_t count = std::min<hsize_t>(block / element, elements - first);
    checked(H5Sselect_hyperslab(space, H5S_SELECT_SET, &first, nullptr, &count, nullptr),
            "H5Sselect_hyperslab");
    const hid_t here = checked(H5Screate_simple(1, &count, nullptr), "H5Screate_simple");
    checked(H5Dread(set, type, here, space, H5P_DEFAULT, memory.data()), "H5Dread");
    checked(H5Sclose(here), "H5Sclose");
    if (copy) copy(memory.data(), count * element);
    return count;
  };
  read(0);  // so that memory and GPU are awake
  hsize_t first = 0;
  const auto start = Clock::now();
  while (first < elements && seconds_since(start) < limit) first += read(first);
  print(copy ? "h5dread_and_copy" : "h5dread", first * element, seconds_since(start));
}

void direct(const std::string& name, unsigned threads, double limit) {
  const shardstream::Descriptor file(name, O_RDONLY | O_DIRECT);
  if (!file.valid()) throw std::runtime_error(name + ": " + shardstream::errno_text(errno));
  const std::uint64_t size = std::filesystem::file_size(name);
  constexpr std::size_t piece = std::size_t{4} << 20, page = 4096;
  using Memory = std::unique_ptr<void, decltype(&std::free)>;
  std::vector<Memory> memory;
  for (unsigned i = 0; i < threads; ++i) {
    memory.emplace_back(std::aligned_alloc(page, piece), &std::free);
    if (!memory.back()) throw std::bad_alloc();
    std::memset(memory.back().get(), 1, piece);
  }
  std::atomic<std::uint64_t> next = 0, bytes = 0;
  const auto start = Clock::now();
  shardstream::parallel_for(threads, threads, [&](std::uint64_t thread) {
    for (std::uint64_t at = piece * next++; at < size && seconds_since(start) < limit;
         at = piece * next++) {
      const auto got = pread(file.get(), memory[thread].get(), piece, static_cast<off_t>(at));
      if (got < 0) throw std::runtime_error(name + ": " + shardstream::errno_text(errno));
      if (got == 0) throw std::runtime_error(name + ": it has become shorter");
      bytes += static_cast<std::uint64_t>(got);
    }
  });
  print("direct_read", bytes, seconds_since(start));
}

}  // namespace

int main(int argc, char** argv) try {
  const std::vector<std::string> words(argv + 1, argv + argc);
  const auto number = [&](std::size_t place, double otherwise) {
    if (words.size() <= place) return otherwise;
    char* end = nullptr;
    const double value = std::strtod(words[place].c_str(), &end);
    if (*end == '\0' && value >= 1 && value <= 1000) return value;
    throw std::runtime_error(words[place] + " is no number in 1..1000");
  };
  if (words.size() >= 2 && words[0] == "h5dread") {
    h5dread(words[1], number(2, 10));
  } else if (words.size() >= 2 && words[0] == "direct") {
    direct(words[1], static_cast<unsigned>(number(2, 32)), number(3, 10));
  } else {
    throw std::runtime_error(
        "usage: plain_reads h5dread FILE.h5:/PATH [SECONDS=10] | "
        "plain_reads direct FILE.h5 [THREADS=32] [SECONDS=10]");
  }
} catch (const std::exception& error) {
  std::fprintf(stderr, "plain_reads: %s\n", error.what());
  return 1;
}
