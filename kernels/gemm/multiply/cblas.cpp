// OpenBLAS, loaded on first use. A program that is linked with it starts OpenBLAS's threads before
// main(). If a thread cannot be started, or there is no memory for its buffer, OpenBLAS ends the
// process or retries forever.
#include "kernels/gemm/multiply/cblas.hpp"

#include <cblas.h>
#include <dlfcn.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <condition_variable>
#include <cstddef>
#include <cstdlib>
#include <limits>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/gemm/multiply/core_type.hpp"

namespace shardstream::gemm::cblas {
namespace {

constexpr CBLAS_ORDER order = CblasRowMajor;
constexpr CBLAS_TRANSPOSE as_stored = CblasNoTrans, transposed = CblasTrans;

constexpr const char* core_variable = "OPENBLAS_CORETYPE";

/// The functions that this program calls.
struct Library {
  void* file = nullptr;
  decltype(&cblas_sgemm) sgemm;
  decltype(&cblas_dgemm) dgemm;
  decltype(&openblas_get_config) config;
  decltype(&openblas_get_corename) core;
  decltype(&openblas_get_num_threads) threads;
  decltype(&openblas_set_num_threads) set_threads;
  const char* core_chosen_by = "library";  ///< "user", "program" or "library"
};

[[noreturn]] void fail_to_load(const char* name, const char* why) {
  rlimit space{};  // dlerror() does not mention this limit
  const bool limited = getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY;
  const std::string limit =
      limited ? "; ulimit -v is " + std::to_string(space.rlim_cur / 1024) + " KiB" : "";
  throw std::runtime_error(std::string(name) + " cannot be loaded (" + why + limit +
                           "): install OpenBLAS, or add its folder to LD_LIBRARY_PATH, to multiply "
                           "matrices on CPUs");
}

void* open_library() {
  const std::string configured = SHARDSTREAM_OPENBLAS;
  if (void* const file = dlopen(configured.c_str(), RTLD_NOW | RTLD_LOCAL)) return file;
  const std::string name = configured.substr(configured.rfind('/') + 1);
  if (void* const file = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return file;
  fail_to_load(name.c_str(), dlerror());
}

Library open_functions() {
  Library library{};
  library.file = open_library();
  const auto find = [&library](auto& function, const char* name) {
    void* const symbol = dlsym(library.file, name);
    if (symbol == nullptr) fail_to_load(name, dlerror());
    function = reinterpret_cast<std::decay_t<decltype(function)>>(symbol);
  };
  find(library.sgemm, "cblas_sgemm");
  find(library.dgemm, "cblas_dgemm");
  find(library.config, "openblas_get_config");
  find(library.core, "openblas_get_corename");
  find(library.threads, "openblas_get_num_threads");
  find(library.set_threads, "openblas_set_num_threads");
  return library;
}

/// Opens the library with kernels for `core`. The library reads the variable when it is opened.
/// setenv() might move the variables while a thread of MPI reads them. So this function makes
/// another array of them, which is never freed, for as long as the library is opened.
Library open_with_core(std::string_view core) {
  static std::string entry;
  static std::vector<char*> variables;
  entry = std::string(core_variable) + '=' + std::string(core);
  variables.clear();
  for (char** each = environ; *each != nullptr; ++each) variables.push_back(*each);
  variables.insert(variables.end(), {entry.data(), nullptr});
  struct Restore {
    char** before;
    ~Restore() { environ = before; }
  } const restore{std::exchange(environ, variables.data())};
  return open_functions();
}

/// Opens the library. If the user has not chosen a core type, and the library chooses one that uses
/// less than this processor has, it is opened again with a better one. To open it takes some 3 ms.
Library open_with_best_core() {
  Library library = open_functions();
  const std::string detected = library.core();
  if (const char* const wanted = std::getenv(core_variable)) {
    if (strcasecmp(wanted, detected.c_str()) == 0) library.core_chosen_by = "user";
    return library;
  }
  const std::string better(better_core(this_processor(), detected));
  const bool can_choose =
      std::string_view(library.config()).find("DYNAMIC_ARCH") != std::string_view::npos;
  if (better.empty() || !can_choose) return library;
  dlclose(library.file);
  library = open_with_core(better);
  if (library.core() == better) {
    library.core_chosen_by = "program";
    return library;
  }
  dlclose(library.file);  // it has no such kernels
  return open_functions();
}

Library load() {
  Library library = open_with_best_core();  // never closed: calls may run until the process ends
  // Here, since the number must not change while several threads call the library.
  library.set_threads(1);
  return library;
}

/// The library. Throws std::runtime_error if it cannot be loaded; the next call tries again.
const Library& loaded() {
  static const Library library = load();
  return library;
}

blasint to_blas(std::uint64_t size) {
  if (size > static_cast<std::uint64_t>(std::numeric_limits<blasint>::max())) {
    throw std::logic_error("the width of a panel exceeds the integers of CBLAS");
  }
  return static_cast<blasint>(size);
}

/// Makes calls of this thread use one thread. OpenBLAS for OpenMP has a number of threads for each
/// calling thread, other versions have one for all.
void use_one_thread() {
  thread_local const bool is_set = [] {
    loaded().set_threads(1);
    return true;
  }();
  (void)is_set;
}

/// Limits the calls that run at the same time to the number of OpenBLAS's buffers. OpenBLAS
/// allocates a buffer for each concurrent call, keeps it, and retries forever if there is no
/// memory. So a call that needs one more buffer starts only if there is memory for it; otherwise it
/// waits until another call ends.
class CallLimit {
 public:
  /// Throws std::bad_alloc if there is no memory for even one buffer.
  void begin() {
    std::unique_lock lock(mutex_);
    while (running_ == buffers_) {
      if (is_memory_for(buffers_ + 1)) {
        ++buffers_;
      } else if (buffers_ == 0) {
        throw std::bad_alloc();
      } else {
        ended_.wait(lock);
      }
    }
    ++running_;
  }

  void end() {
    {
      const std::lock_guard lock(mutex_);
      --running_;
    }
    ended_.notify_one();
  }

 private:
  /// Whether all these buffers can be allocated; it is unknown which of them OpenBLAS already has.
  static bool is_memory_for(std::size_t buffers) {
    constexpr std::size_t buffer = (std::size_t{128} << 20) + (std::size_t{1} << 20);
    void* const memory =
        mmap(nullptr, buffers * buffer, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return false;
    munmap(memory, buffers * buffer);
    return true;
  }

  std::mutex mutex_;
  std::condition_variable ended_;
  std::size_t buffers_ = 0, running_ = 0;
};

CallLimit& call_limit() {
  static CallLimit limit;
  return limit;
}

/// Exists during one call of the library.
class LimitedCall {
 public:
  LimitedCall() {
    use_one_thread();
    call_limit().begin();
  }
  ~LimitedCall() { call_limit().end(); }
  LimitedCall(const LimitedCall&) = delete;
  LimitedCall& operator=(const LimitedCall&) = delete;
};

}  // namespace

bool exists() {
  return true;
}

void set_environment() {
  setenv("OPENBLAS_NUM_THREADS", "1", 1);
}

Description describe() {
  const Library& library = loaded();
  return {library.config(), library.core(), library.core_chosen_by,
          std::to_string(library.threads())};
}

std::string prepare() {
  return std::string(loaded().config()) + ", one thread per call";
}

void multiply(const Tile& tile, const float* a, std::uint64_t lda, const float* b,
              std::uint64_t ldb, float* c, bool first) {
  const blasint m = to_blas(tile.m), n = to_blas(tile.n), k = to_blas(tile.k);
  const LimitedCall call;
  loaded().sgemm(order, as_stored, as_stored, m, n, k, 1, a, to_blas(lda), b, to_blas(ldb),
                 first ? 0 : 1, c, n);
}

void multiply(const Tile& tile, const double* a, std::uint64_t lda, const double* b,
              std::uint64_t ldb, double* c, bool first) {
  const blasint m = to_blas(tile.m), n = to_blas(tile.n), k = to_blas(tile.k);
  const LimitedCall call;
  loaded().dgemm(order, as_stored, as_stored, m, n, k, 1, a, to_blas(lda), b, to_blas(ldb),
                 first ? 0 : 1, c, n);
}

void multiply_transposed(const Tile& tile, const float* a, const float* b_transposed, float* c,
                         bool first) {
  const blasint m = to_blas(tile.m), n = to_blas(tile.n), k = to_blas(tile.k);
  const LimitedCall call;
  loaded().sgemm(order, as_stored, transposed, m, n, k, 1, a, k, b_transposed, k, first ? 0 : 1, c,
                 n);
}

void square(std::uint64_t n, std::uint64_t depth, const float* x, float* c, bool first) {
  const blasint edge = to_blas(n);
  const LimitedCall call;
  loaded().sgemm(order, transposed, as_stored, edge, edge, to_blas(depth), 1, x, edge, x, edge,
                 first ? 0 : 1, c, edge);
}

void square(std::uint64_t n, std::uint64_t depth, const double* x, double* c, bool first) {
  const blasint edge = to_blas(n);
  const LimitedCall call;
  loaded().dgemm(order, transposed, as_stored, edge, edge, to_blas(depth), 1, x, edge, x, edge,
                 first ? 0 : 1, c, edge);
}

}  // namespace shardstream::gemm::cblas
