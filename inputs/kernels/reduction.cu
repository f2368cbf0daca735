// An example of an own kernel:
// shardstream bench reduction --reduction.kernel inputs/kernels/reduction.cu
constexpr unsigned block_x = 256;  // threads of a block, a power of two

/// A block adds one element of each thread and stores its sum.
__global__ void sum(const float* x, unsigned long long count, float* sums) {
  __shared__ float words[block_x];
  const unsigned long long i = blockIdx.x * 1ULL * block_x + threadIdx.x;
  words[threadIdx.x] = i < count ? x[i] : 0;
  for (unsigned half = block_x / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) words[threadIdx.x] += words[threadIdx.x + half];
  }
  if (threadIdx.x == 0) sums[blockIdx.x] = words[0];
}
