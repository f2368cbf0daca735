// An example of an own kernel: shardstream bench matmul --matmul.kernel inputs/kernels/matmul.cu
constexpr unsigned block_x = 32, block_y = 8;  // threads of a block

/// C = alpha A B + beta C. A is m x k, B is k x n, C is m x n, by rows. A thread computes one
/// element.
__global__ void product(const float* a, const float* b, float* c, unsigned m, unsigned n,
                        unsigned k, float alpha, float beta) {
  const unsigned row = blockIdx.y * block_y + threadIdx.y;
  const unsigned column = blockIdx.x * block_x + threadIdx.x;
  if (row >= m || column >= n) return;
  float sum = 0;
  for (unsigned i = 0; i < k; ++i) sum = fmaf(a[row * k + i], b[i * n + column], sum);
  c[row * n + column] = fmaf(alpha, sum, beta * c[row * n + column]);
}
