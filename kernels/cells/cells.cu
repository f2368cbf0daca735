#include "kernels/cells/launchers.cuh"

namespace shardstream::cells::cuda {

template struct Launchers<float>;
template struct Launchers<double>;

}  // namespace shardstream::cells::cuda
