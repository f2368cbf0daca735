// Shows what a thread does to NVIDIA's profilers. Does nothing in a build without CUDA, and next to
// nothing while no profiler listens.
#pragma once

namespace shardstream::measure {

/// Begins a range of the calling thread in the domain "shardstream"; ranges nest. `name` is copied.
void push_range(const char* name) noexcept;
/// Ends the calling thread's latest range.
void pop_range() noexcept;

}  // namespace shardstream::measure
