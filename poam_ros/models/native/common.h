/* What the sources have in common. */

#ifndef POAM_COMMON_H
#define POAM_COMMON_H

#include <math.h>
#include <stdint.h>
#include <string.h>

/* Raised with any change of what a library is given; as in loader.py. */
#define INTERFACE 14
const int64_t poam_interface = INTERFACE;

#define PASTE(name, lanes) name##_##lanes
#define EXPANDED(name, lanes) PASTE(name, lanes)
#define FOR_LANES(name) EXPANDED(name, LANES)

/* 2^r for |r| <= 1/2: the polynomial of the best relative error there, 2e-17. */
#define EXP2_POLYNOMIAL \
    { \
        0x1.e9ec1fcb69a7fp-32, 0x1.e6228acd1c6e5p-28, 0x1.b524ebd13a55fp-24, \
        0x1.62bfc2c86d700p-20, 0x1.ffcbfc6da6ed1p-17, 0x1.430913112c61bp-13, \
        0x1.5d87fe78a3f9cp-10, 0x1.3b2ab6fb9f1a5p-7,  0x1.c6b08d704a0c6p-5, \
        0x1.ebfbdff82c5aep-3,  0x1.62e42fefa39efp-1,  1.0, \
    }
#define EXP2_TERMS (sizeof EXP2 / sizeof *EXP2)
#define LOG2_E 0x1.71547652b82fep0

/* What the processor has, of the functions compiled for 2, 4 and 8 lanes. */
#if defined(__x86_64__)
#define DISPATCH(name, ...) \
    (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && \
             __builtin_cpu_supports("avx512vl") \
         ? name##_8(__VA_ARGS__) \
         : __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? name##_4(__VA_ARGS__) \
                                                                           : name##_2(__VA_ARGS__))
#else
#define DISPATCH(name, ...) name##_2(__VA_ARGS__)
#endif

#endif
