// SHARDSTREAM_VECTOR_CLONES compiles a function twice, for AVX2 and for any processor. The choice
// is made when the program is loaded. Both give the same bits, since the compiler does not contract
// multiplications and additions. Builds with sanitizers compile it once: the choice would be made
// before their run-time libraries are initialised.
#pragma once

#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define SHARDSTREAM_VECTOR_CLONES [[gnu::target_clones("arch=x86-64-v3", "default")]]
#else
#define SHARDSTREAM_VECTOR_CLONES
#endif
