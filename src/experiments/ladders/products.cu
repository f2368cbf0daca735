#include "experiments/ladders/products.hpp"

namespace shardstream::experiments::ladders {
namespace {

constexpr unsigned threads = 256;
constexpr std::uint64_t first_of_v = std::uint64_t{1} << 42;

template <class T>
__global__ void fill_with_numbers(T* x, std::uint64_t count, std::uint64_t first) {
  for (std::uint64_t i = blockIdx.x * std::uint64_t{threads} + threadIdx.x; i < count;
       i += std::uint64_t{gridDim.x} * threads) {
    x[i] = static_cast<T>(matrix_number(first + i));
  }
}

__global__ void fill_vector(double* v, unsigned count) {
  const unsigned i = blockIdx.x * threads + threadIdx.x;
  if (i < count) v[i] = 1 + static_cast<int>(unit_number(first_of_v + i) * 1024);
}

/// Block i computes y[i], the product of row i of x and v.
template <class T>
__global__ void multiply_rows(const T* x, unsigned columns, const double* v, double* y) {
  __shared__ double sums[threads];
  const T* const row = x + std::uint64_t{blockIdx.x} * columns;
  double sum = 0;
  for (unsigned j = threadIdx.x; j < columns; j += threads) {
    sum += static_cast<double>(static_cast<float>(row[j])) * v[j];
  }
  sums[threadIdx.x] = sum;
  for (unsigned half = threads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
  }
  if (threadIdx.x == 0) y[blockIdx.x] = sums[0];
}

/// Thread j adds the product of column j of x and v to y[j]; the blocks of a column share its rows.
template <class T>
__global__ void multiply_columns(const T* x, unsigned rows, unsigned columns, const double* v,
                                 double* y) {
  const unsigned j = blockIdx.x * threads + threadIdx.x;
  if (j >= columns) return;
  double sum = 0;
  for (unsigned i = blockIdx.y; i < rows; i += gridDim.y) {
    sum += static_cast<double>(static_cast<float>(x[std::uint64_t{i} * columns + j])) * v[i];
  }
  atomicAdd(&y[j], sum);  // exact, so that the order does not matter
}

}  // namespace

template <class T>
void fill_matrix(const DeviceArray<T>& x, std::uint64_t first, cudaStream_t stream) {
  constexpr unsigned blocks = 2048;
  fill_with_numbers<<<blocks, threads, 0, stream>>>(x.data(), x.size(), first);
  check_launch("fill_with_numbers");
}
template void fill_matrix(const DeviceArray<float>&, std::uint64_t, cudaStream_t);
template void fill_matrix(const DeviceArray<bf16>&, std::uint64_t, cudaStream_t);

template <class T>
ProductCheck::ProductCheck(const Product<T>& p, BGiven b, cudaStream_t stream)
    : m_(p.m),
      n_(p.n),
      k_(p.k),
      alpha_(p.alpha),
      beta_(p.beta),
      b_(b),
      stream_(stream),
      v_(p.n),
      product_(p.m) {
  fill_vector<<<blocks_for(n_, threads), threads, 0, stream>>>(v_.data(), n_);
  const DeviceArray<double> of_b(k_), of_ab(m_), of_c(m_);
  of_c.clear(stream);
  if (b == BGiven::plainly) {
    multiply_rows<<<k_, threads, 0, stream>>>(p.b, n_, v_.data(), of_b.data());
  } else {
    constexpr unsigned sharing = 64;
    of_b.clear(stream);
    multiply_columns<<<dim3(blocks_for(k_, threads), sharing), threads, 0, stream>>>(
        p.b, n_, k_, v_.data(), of_b.data());
  }
  multiply_rows<<<m_, threads, 0, stream>>>(p.a, k_, of_b.data(), of_ab.data());
  if (beta_ != 0) multiply_rows<<<m_, threads, 0, stream>>>(p.c, n_, v_.data(), of_c.data());
  check_launch("multiply_rows");
  expected_ = of_ab.read();
  const std::vector<double> before = of_c.read();
  for (unsigned i = 0; i < m_; ++i) expected_[i] = alpha_ * expected_[i] + beta_ * before[i];
}
template ProductCheck::ProductCheck(const Product<float>&, BGiven, cudaStream_t);
template ProductCheck::ProductCheck(const Product<bf16>&, BGiven, cudaStream_t);

void need_memory(const Bench& bench) {
  constexpr std::uint64_t mebibytes = 512;
  if (bench.memory() >> 20 < mebibytes) {
    throw NotAvailable(formatted("the experiment needs {} MiB of device memory", mebibytes));
  }
}

double ProductCheck::expected_element(std::uint64_t row, std::uint64_t column) const {
  const std::uint64_t b_column = b_ == BGiven::plainly ? column : column * k_;
  const std::uint64_t b_step = b_ == BGiven::plainly ? n_ : 1;
  const std::uint64_t first = b_ == BGiven::plainly ? first_of_b : first_of_a;
  double sum = 0;
  for (std::uint64_t i = 0; i < k_; ++i) {
    sum += static_cast<double>(matrix_number(first_of_a + row * k_ + i)) *
           static_cast<double>(matrix_number(first + b_column + i * b_step));
  }
  return alpha_ * sum + beta_ * static_cast<double>(matrix_number(first_of_c + row * n_ + column));
}

bool ProductCheck::is_right(const DeviceArray<float>& c) const {
  multiply_rows<<<m_, threads, 0, stream_>>>(c.data(), n_, v_.data(), product_.data());
  check_launch("multiply_rows");
  if (product_.read() != expected_) return false;
  constexpr std::uint64_t elements = 32;
  const std::uint64_t count = std::uint64_t{m_} * n_;
  for (std::uint64_t i = 0; i < elements; ++i) {
    // The first element, the last one, and others between them.
    const std::uint64_t at = i + 1 == elements ? count - 1 : i * (count / elements) + i;
    if (c.read(at, 1)[0] != expected_element(at / n_, at % n_)) return false;
  }
  return true;
}

}  // namespace shardstream::experiments::ladders
