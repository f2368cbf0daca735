// Marks ranges of time for NVIDIA's profilers. Does nothing in a build without CUDA, and costs
// almost nothing without a profiler.
#pragma once

namespace shardstream::measure {

/// Begins a range of the calling thread in the domain "shardstream"; ranges nest. `name` is copied.
void push_range(const char* name) noexcept;
/// Ends the calling thread's latest range.
void pop_range() noexcept;

}  // namespace shardstream::measure
