/* What the sources have in common: vectors of LANES doubles or twice as many floats. setup.py builds
 * each source for several kinds of processors, with as many lanes as each has; loader.py chooses. */

#ifndef POAM_COMMON_H
#define POAM_COMMON_H

#include <math.h>
#include <stdint.h>
#include <string.h>

/* Raised with any change of what a library is given; as in loader.py. */
#define INTERFACE 17
const int64_t poam_interface = INTERFACE;

#ifndef LANES
#define LANES 2 /* SSE2, NEON */
#endif
#define BYTES (LANES * 8)
#define INLINE static inline __attribute__((always_inline))

typedef double V __attribute__((vector_size(BYTES)));
typedef int64_t I __attribute__((vector_size(BYTES)));

/* One of two, lane by lane, as a comparison says. */
INLINE V choose(I which, V yes, V no)
{
    return (V)(((I)yes & which) | ((I)no & ~which));
}

INLINE double total(V v)
{
    double sum = 0.0;
    for (int lane = 0; lane < LANES; lane++)
        sum += v[lane];
    return sum;
}

/* 2^r for |r| <= 1/2: the polynomial of the best relative error there, 2e-17. */
static const double EXP2[] = {
    0x1.e9ec1fcb69a7fp-32, 0x1.e6228acd1c6e5p-28, 0x1.b524ebd13a55fp-24, 0x1.62bfc2c86d700p-20,
    0x1.ffcbfc6da6ed1p-17, 0x1.430913112c61bp-13, 0x1.5d87fe78a3f9cp-10, 0x1.3b2ab6fb9f1a5p-7,
    0x1.c6b08d704a0c6p-5,  0x1.ebfbdff82c5aep-3,  0x1.62e42fefa39efp-1,  1.0,
};
#define LOG2_E 0x1.71547652b82fep0

/* 2^x, to about one unit in the last place; from 2^-1021 to 2^1021. */
INLINE V power_of_2(V x)
{
    const double shift = 0x1.8p52; /* rounds to an integer and leaves it in the low bits */
    const V most = (V){0} + 1021.0;
    x = choose(x < most, x, most);
    x = choose(x > -most, x, -most);
    const V rounded = x + shift, r = x - (rounded - shift);
    V p = (V){0} + EXP2[0];
    for (unsigned term = 1; term < sizeof EXP2 / sizeof *EXP2; term++)
        p = p * r + EXP2[term];
    return (V)((I)p + ((I)rounded << 52));
}

#endif
