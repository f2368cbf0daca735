// Apart from cells.cu, so that the two compile at the same time.
#include "kernels/cells/launchers.cuh"

namespace shardstream::cells::cuda {

template struct Launchers<std::int32_t>;
template struct Launchers<std::int64_t>;
template struct Launchers<std::int8_t>;
template struct Launchers<std::uint8_t>;
template struct Launchers<std::uint64_t>;

}  // namespace shardstream::cells::cuda
