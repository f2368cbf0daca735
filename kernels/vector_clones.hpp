// One binary runs everywhere and uses AVX2 where it is. Sanitizers' run-time libraries are not up
// yet when such a function is resolved. Contraction is off, so the bits are the same.
#pragma once

#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define SHARDSTREAM_VECTOR_CLONES [[gnu::target_clones("arch=x86-64-v3", "default")]]
#else
#define SHARDSTREAM_VECTOR_CLONES
#endif
