/* The Attentive Kernel and its gradient in one pass, in plain C for any vectorising compiler.
 *
 *   K_ij = a s_ij b_ij,  s_ij = w_i . w_j,  b_ij = sum_m w_im w_jm exp(-|x_i - x_j|^2 / (2 l_m^2))
 *
 * All arrays are float64 and contiguous. A trailing T: transposed, so that the inner loop over j
 * reads in order. Nothing here allocates or keeps state; every function may run on any thread.
 */

#include <stdint.h>
#include <string.h>

#define BLOCK 128 /* columns at a time: all base kernels of a block stay in the first-level cache */
#define MAX_BASES 32

/* One binary for old and new x86 processors; elsewhere the baseline has vectors anyway. */
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && __GNUC__ >= 12 && \
    !defined(__clang__)
#define FOR_EACH_PROCESSOR \
    __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#ifndef FOR_EACH_PROCESSOR
#define FOR_EACH_PROCESSOR
#endif
#endif
#define INLINE static inline __attribute__((always_inline))

typedef struct {
    int64_t n1, n2, dim, bases;
    const double *X1;      /* [n1, dim] */
    const double *X2T;     /* [dim, n2] */
    const double *W1;      /* [n1, bases] */
    const double *W2T;     /* [bases, n2] */
    const double *rates;   /* [bases] -1 / (2 l^2), in the order in which they are computed */
    const int64_t *source; /* [bases] whose power this base kernel is, or -1 for an exponential */
    const int64_t *power;  /* [bases] 4 or 9 */
    double amplitude;
} Problem;

/* exp(x) for x <= 0, to about one unit in the last place; branch-free, so that it vectorises. */
INLINE double exp_of_negative(double x)
{
    const double shift = 0x1.8p52; /* rounds to an integer and leaves it in the low bits */
    x = x < -708.0 ? -708.0 : x;
    double rounded = x * 0x1.71547652b82fep0 + shift;
    double k = rounded - shift;
    double r = x - k * 0x1.62e42fefa0000p-1;
    r -= k * 0x1.cf79abc9e3b39p-40;
    double p = 1.0 / 6227020800.0;
    p = p * r + 1.0 / 479001600.0;
    p = p * r + 1.0 / 39916800.0;
    p = p * r + 1.0 / 3628800.0;
    p = p * r + 1.0 / 362880.0;
    p = p * r + 1.0 / 40320.0;
    p = p * r + 1.0 / 5040.0;
    p = p * r + 1.0 / 720.0;
    p = p * r + 1.0 / 120.0;
    p = p * r + 1.0 / 24.0;
    p = p * r + 1.0 / 6.0;
    p = p * r + 0.5;
    p = p * r + 1.0;
    p = p * r + 1.0;
    int64_t exponent, bits;
    memcpy(&exponent, &rounded, sizeof exponent);
    memcpy(&bits, &p, sizeof bits);
    bits += exponent << 52;
    memcpy(&p, &bits, sizeof p);
    return p;
}

/* Base kernels E [bases][BLOCK] of row i and the columns j0 .. j0 + n. */
INLINE void base_kernels(const Problem *q, int64_t i, int64_t j0, int64_t n,
                         double E[MAX_BASES][BLOCK])
{
    double squared[BLOCK] = {0};
    for (int64_t d = 0; d < q->dim; d++) {
        const double x = q->X1[i * q->dim + d];
        const double *restrict y = q->X2T + d * q->n2 + j0;
#pragma omp simd
        for (int64_t j = 0; j < n; j++)
            squared[j] += (x - y[j]) * (x - y[j]);
    }
    for (int64_t m = 0; m < q->bases; m++) {
        double *restrict e = E[m];
        if (q->source[m] < 0) {
            const double rate = q->rates[m];
#pragma omp simd
            for (int64_t j = 0; j < n; j++)
                e[j] = exp_of_negative(rate * squared[j]);
            continue;
        }
        /* A lengthscale that is 1/2 (1/3) of another: the 4th (9th) power of its base kernel. */
        const double *restrict from = E[q->source[m]];
        const int ninth = q->power[m] == 9;
#pragma omp simd
        for (int64_t j = 0; j < n; j++) {
            const double e2 = from[j] * from[j], e4 = e2 * e2;
            e[j] = ninth ? e4 * e4 * from[j] : e4;
        }
    }
}

/* s and b of row i and one block of columns. */
INLINE void blend(const Problem *q, int64_t i, int64_t j0, int64_t n, double E[MAX_BASES][BLOCK],
                  double *restrict s, double *restrict b)
{
    memset(s, 0, sizeof(double) * BLOCK);
    memset(b, 0, sizeof(double) * BLOCK);
    for (int64_t m = 0; m < q->bases; m++) {
        const double w1 = q->W1[i * q->bases + m];
        const double *restrict w2 = q->W2T + m * q->n2 + j0;
        const double *restrict e = E[m];
#pragma omp simd
        for (int64_t j = 0; j < n; j++) {
            const double w = w1 * w2[j];
            s[j] += w;
            b[j] += w * e[j];
        }
    }
}

/* K [n1, n2]; if symmetric, x1 is x2 and the upper triangle is a copy of the lower. */
FOR_EACH_PROCESSOR
void attentive_forward(const Problem *q, int symmetric, double *restrict K)
{
    double E[MAX_BASES][BLOCK], s[BLOCK], b[BLOCK];
    for (int64_t i = 0; i < q->n1; i++) {
        const int64_t end = symmetric ? i + 1 : q->n2;
        for (int64_t j0 = 0; j0 < end; j0 += BLOCK) {
            const int64_t n = end - j0 < BLOCK ? end - j0 : BLOCK;
            base_kernels(q, i, j0, n, E);
            blend(q, i, j0, n, E, s, b);
            double *restrict row = K + i * q->n2 + j0;
            const double a = q->amplitude;
#pragma omp simd
            for (int64_t j = 0; j < n; j++)
                row[j] = a * s[j] * b[j];
        }
    }
    if (symmetric)
        for (int64_t i = 0; i < q->n1; i++)
            for (int64_t j = 0; j < i; j++)
                K[j * q->n2 + i] = K[i * q->n2 + j];
}

/* From G = dloss/dK: dW1 [n1, bases] and dW2T [bases, n2] (both added to), and dloss/da as the
 * result. If symmetric, so is G, x1 is x2, and only the lower triangle is looked at: dW1 and dW2T
 * then hold two parts of one gradient. */
FOR_EACH_PROCESSOR
double attentive_backward(const Problem *q, int symmetric, const double *restrict G,
                          double *restrict dW1, double *restrict dW2T)
{
    double E[MAX_BASES][BLOCK], s[BLOCK], b[BLOCK];
    double damplitude = 0.0;
    const double twice = symmetric ? 2.0 : 1.0;
    const double share = twice * q->amplitude;
    for (int64_t i = 0; i < q->n1; i++) {
        const int64_t end = symmetric ? i + 1 : q->n2;
        for (int64_t j0 = 0; j0 < end; j0 += BLOCK) {
            const int64_t n = end - j0 < BLOCK ? end - j0 : BLOCK;
            /* The diagonal is met once, and belongs to dW1. */
            const int64_t n_columns = symmetric && j0 + n > i ? i - j0 : n;
            base_kernels(q, i, j0, n, E);
            blend(q, i, j0, n, E, s, b);
            const double *restrict g = G + i * q->n2 + j0;
            double sum = 0.0;
#pragma omp simd reduction(+ : sum)
            for (int64_t j = 0; j < n; j++) {
                sum += g[j] * s[j] * b[j];
                s[j] *= share * g[j];
                b[j] *= share * g[j];
            }
            damplitude += twice * sum;
            for (int64_t m = 0; m < q->bases; m++) {
                const double w1 = q->W1[i * q->bases + m];
                const double *restrict w2 = q->W2T + m * q->n2 + j0;
                const double *restrict e = E[m];
                double *restrict dw2 = dW2T + m * q->n2 + j0;
                double row = 0.0;
#pragma omp simd reduction(+ : row)
                for (int64_t j = 0; j < n; j++)
                    row += (b[j] + s[j] * e[j]) * w2[j];
#pragma omp simd
                for (int64_t j = 0; j < n_columns; j++)
                    dw2[j] += (b[j] + s[j] * e[j]) * w1;
                dW1[i * q->bases + m] += row;
            }
        }
        if (symmetric) /* each pair stands for two entries, but the diagonal for one */
            damplitude -= G[i * q->n2 + i];
    }
    return damplitude;
}
