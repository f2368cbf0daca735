// Readers round stored elements to panel elements in host memory, at the speed of memory and
// thread-safe.
#pragma once

#include <cstdint>

#include "kernels/gemm/precision.hpp"
#include "types/element.hpp"

namespace shardstream::gemm {

/// Whether stored elements of type `from` have the same bytes as those of a panel.
bool stored_as_panel(ElementType from, Precision precision, Backend backend);

/// Whether readers convert stored elements to panel elements. They do if the two differ and panel
/// elements are not larger, so that no unnecessary bytes are uploaded.
bool readers_round(ElementType from, Precision precision, Backend backend);

/// Sets out[i] to the panel element of in[i], with the same bits as canonicalize_kernel(). An
/// element has panel_element_bytes() bytes. `in` and `out` must be aligned to their elements. They
/// may be the same if panel elements are not larger; otherwise they must not overlap. Returns the
/// word_checksum() of the result. Throws std::logic_error unless takes(precision, from).
std::uint64_t round_elements(ElementType from, Precision precision, Backend backend, const void* in,
                             std::uint64_t count, void* out);

}  // namespace shardstream::gemm
