/* The Attentive Kernel and its gradient in one pass, in plain C with the vectors of GCC and Clang.
 *
 *   K_ij = a s_ij b_ij,  s_ij = w_i . w_j,  b_ij = sum_m w_im w_jm exp(-|x_i - x_j|^2 / (2 l_m^2))
 *
 * All arrays are float64 and contiguous. Nothing here allocates or keeps state; every function may
 * run on any thread. The upper half belongs to all processors; lanes.h compiles the lower half for
 * each kind of them.
 */

#ifndef LANES

#include "common.h"

#define MAX_BASES 32
#define MAX_DIM 8
#define MAX_TILE 64 /* rows and columns of a piece of a grid */
#define MIRROR_TILE 16
#define UNROLL 4    /* vectors at a time: enough independent work to hide latencies */
#define INLINE static inline __attribute__((always_inline))

/* The order in which base kernels are computed, and how. */
typedef struct {
    int64_t bases;
    const double *rates;   /* [bases] -1 / (2 l^2), in that order, as all here */
    const int64_t *order;  /* [bases] its column among the weights */
    const int64_t *source; /* [bases] whose power this base kernel is, or -1 for an exponential */
    const int64_t *power;  /* [bases] 4 or 9 */
} Plan;

typedef struct {
    Plan plan;
    int64_t n1, n2, dim;
    const double *X1, *X2; /* [n1, dim], [n2, dim] */
    const double *W1, *W2; /* [n1, bases], [n2, bases] */
    double amplitude;
} Problem;

typedef struct {
    Plan plan;
    int64_t n1, columns, rows; /* columns and rows at most MAX_TILE */
    const double *X1;          /* [n1, 2] */
    const double *x, *y;       /* [columns], [rows] */
    const double *W1;          /* [n1, bases] */
    const double *W2;          /* [rows, bases, MAX_TILE] in the plan's order, padded with zeros */
    double amplitude;
} GridProblem;

static const double EXP2[] = EXP2_POLYNOMIAL;

#define SELF "attentive.c"
#include "lanes.h"

/* K [n1, n2]; if symmetric, x1 is x2 and the upper triangle is a copy of the lower. */
void attentive_forward(const Problem *q, int symmetric, double *K)
{
    DISPATCH(forward, q, symmetric, K);
}

/* From G = dloss/dK: dW1 [n1, bases], dW2 [n2, bases] and, unless they are null, dX1 [n1, dim] and
 * dX2 [n2, dim] (all added to), and dloss/da as the result. If symmetric, x1 is x2, and dW1 may be
 * dW2, and dX1 may be dX2. */
double attentive_backward(const Problem *q, int symmetric, const double *G, double *dW1,
                          double *dW2, double *dX1, double *dX2)
{
    return DISPATCH(backward, q, symmetric, G, dW1, dW2, dX1, dX2);
}

/* Copy the lower triangle of A [n, n] to the upper, tile by tile. */
void attentive_mirror(int64_t n, double *A)
{
    for (int64_t i0 = 0; i0 < n; i0 += MIRROR_TILE)
        for (int64_t j0 = 0; j0 <= i0; j0 += MIRROR_TILE)
            for (int64_t i = i0; i < n && i < i0 + MIRROR_TILE; i++)
                for (int64_t j = j0; j < i && j < j0 + MIRROR_TILE; j++)
                    A[j * n + i] = A[i * n + j];
}

/* K [n1, rows, columns] against the points of a grid, whose base kernels are products of one
 * factor for each axis. */
void attentive_grid(const GridProblem *q, double *K)
{
    DISPATCH(grid, q, K);
}

#else

#define V FOR_LANES(Vector)
#define STRIP (UNROLL * LANES) /* columns at a time */

typedef double V __attribute__((vector_size(LANES * 8)));
typedef int64_t FOR_LANES(Integers) __attribute__((vector_size(LANES * 8)));
/* A vector anywhere in an array. (Compilers copy it in halves where memcpy is asked to.) */
typedef double FOR_LANES(Unaligned)
    __attribute__((vector_size(LANES * 8), aligned(8), may_alias));

INLINE V FOR_LANES(load)(const double *p)
{
    return *(const FOR_LANES(Unaligned) *)p;
}

INLINE void FOR_LANES(store)(double *p, V v)
{
    *(FOR_LANES(Unaligned) *)p = v;
}

/* A strip of n columns from p; zero beyond. */
INLINE void FOR_LANES(load_strip)(const double *p, int64_t n, V strip[UNROLL])
{
    if (n >= STRIP) {
        for (int u = 0; u < UNROLL; u++)
            strip[u] = FOR_LANES(load)(p + u * LANES);
        return;
    }
    for (int u = 0; u < UNROLL; u++) {
        V v = {0};
        for (int lane = 0; lane < LANES && u * LANES + lane < n; lane++)
            v[lane] = p[u * LANES + lane];
        strip[u] = v;
    }
}

INLINE void FOR_LANES(store_strip)(double *p, int64_t n, const V strip[UNROLL])
{
    if (n >= STRIP) {
        for (int u = 0; u < UNROLL; u++)
            FOR_LANES(store)(p + u * LANES, strip[u]);
        return;
    }
    for (int u = 0; u < UNROLL; u++)
        for (int lane = 0; lane < LANES && u * LANES + lane < n; lane++)
            p[u * LANES + lane] = strip[u][lane];
}

INLINE double FOR_LANES(total)(V v)
{
    double sum = 0.0;
    for (int lane = 0; lane < LANES; lane++)
        sum += v[lane];
    return sum;
}

/* 2^x for x <= 0, to about one unit in the last place. */
INLINE V FOR_LANES(exp2_of_negative)(V x)
{
    const double shift = 0x1.8p52; /* rounds to an integer and leaves it in the low bits */
    const V least = (V){0} - 1021.0;
    const FOR_LANES(Integers) above = x > least;
    x = (V)(((FOR_LANES(Integers))x & above) | ((FOR_LANES(Integers))least & ~above));
    const V rounded = x + shift;
    const V r = x - (rounded - shift);
    V p = (V){0} + EXP2[0];
    for (unsigned term = 1; term < EXP2_TERMS; term++)
        p = p * r + EXP2[term];
    return (V)((FOR_LANES(Integers))p + ((FOR_LANES(Integers))rounded << 52));
}

/* All base kernels E [bases][UNROLL] of squared distances. */
INLINE void FOR_LANES(base_kernels)(const Plan *plan, const double *rates, const V *squared,
                                    V E[][UNROLL])
{
    for (int64_t m = 0; m < plan->bases; m++) {
        if (plan->source[m] < 0) {
            for (int u = 0; u < UNROLL; u++)
                E[m][u] = FOR_LANES(exp2_of_negative)(squared[u] * rates[m]);
            continue;
        }
        /* A lengthscale 1/2 (1/3) of another: the 4th (9th) power of its base kernel. */
        const V *from = E[plan->source[m]];
        const int ninth = plan->power[m] == 9;
        for (int u = 0; u < UNROLL; u++) {
            const V e2 = from[u] * from[u], e4 = e2 * e2;
            E[m][u] = ninth ? e4 * e4 * from[u] : e4;
        }
    }
}

/* The rates of 2^x instead of e^x. */
INLINE void FOR_LANES(rates_of_2)(const Plan *plan, double *rates)
{
    for (int64_t m = 0; m < plan->bases; m++)
        rates[m] = plan->rates[m] * LOG2_E;
}

/* A strip of rows of a matrix [n2, count], transposed; zero beyond its end. */
INLINE void FOR_LANES(columns)(const double *matrix, const int64_t *order, int64_t count,
                               int64_t n2, int64_t j0, V strip[][UNROLL])
{
    const int64_t n = n2 - j0 < STRIP ? n2 - j0 : STRIP;
    for (int64_t k = 0; k < count; k++) {
        double column[STRIP] = {0};
        for (int64_t j = 0; j < n; j++)
            column[j] = matrix[(j0 + j) * count + (order ? order[k] : k)];
        FOR_LANES(load_strip)(column, STRIP, strip[k]);
    }
}

/* E, s and b of row i and one strip of columns. */
INLINE void FOR_LANES(pairs)(const Problem *q, const double *rates, int64_t i, V X2[][UNROLL],
                             V W2[][UNROLL], V E[][UNROLL], V s[UNROLL], V b[UNROLL])
{
    V squared[UNROLL] = {{0}};
    for (int64_t d = 0; d < q->dim; d++) {
        const double x = q->X1[i * q->dim + d];
        for (int u = 0; u < UNROLL; u++) {
            const V difference = X2[d][u] - x;
            squared[u] += difference * difference;
        }
    }
    FOR_LANES(base_kernels)(&q->plan, rates, squared, E);
    for (int u = 0; u < UNROLL; u++)
        s[u] = b[u] = (V){0};
    for (int64_t m = 0; m < q->plan.bases; m++) {
        const double w1 = q->W1[i * q->plan.bases + q->plan.order[m]];
        for (int u = 0; u < UNROLL; u++) {
            const V w = W2[m][u] * w1;
            s[u] += w;
            b[u] += w * E[m][u];
        }
    }
}

static void FOR_LANES(forward)(const Problem *q, int symmetric, double *restrict K)
{
    V X2[MAX_DIM][UNROLL], W2[MAX_BASES][UNROLL], E[MAX_BASES][UNROLL], s[UNROLL], b[UNROLL];
    double rates[MAX_BASES];
    FOR_LANES(rates_of_2)(&q->plan, rates);
    for (int64_t j0 = 0; j0 < q->n2; j0 += STRIP) {
        const int64_t n = q->n2 - j0 < STRIP ? q->n2 - j0 : STRIP;
        FOR_LANES(columns)(q->X2, NULL, q->dim, q->n2, j0, X2);
        FOR_LANES(columns)(q->W2, q->plan.order, q->plan.bases, q->n2, j0, W2);
        for (int64_t i = symmetric ? j0 : 0; i < q->n1; i++) {
            FOR_LANES(pairs)(q, rates, i, X2, W2, E, s, b);
            for (int u = 0; u < UNROLL; u++)
                s[u] = s[u] * b[u] * q->amplitude;
            const int64_t end = symmetric && i - j0 + 1 < n ? i - j0 + 1 : n;
            FOR_LANES(store_strip)(K + i * q->n2 + j0, end, s);
            for (int64_t j = 0; symmetric && j < end; j++)
                K[(j0 + j) * q->n2 + i] = K[i * q->n2 + j0 + j];
        }
    }
}

/* Row i of G in one strip, zero beyond its border. If symmetric, a pair is met once only, below
 * the diagonal, and stands for both of its entries. */
INLINE void FOR_LANES(incoming)(const double *G, int64_t n2, int symmetric, int64_t i, int64_t j0,
                                int64_t n, V g[UNROLL])
{
    const int64_t below = symmetric && i - j0 < n ? i - j0 : n;
    FOR_LANES(load_strip)(G + i * n2 + j0, symmetric && below < n ? below + 1 : n, g);
    if (!symmetric)
        return;
    double mirrored[STRIP] = {0};
    for (int64_t j = 0; j < below; j++)
        mirrored[j] = G[(j0 + j) * n2 + i];
    for (int u = 0; u < UNROLL; u++)
        g[u] += FOR_LANES(load)(mirrored + u * LANES);
}

/* Adds a strip to rows of a matrix [n2, count]. */
INLINE void FOR_LANES(add_columns)(double *matrix, const int64_t *order, int64_t count, int64_t n2,
                                   int64_t j0, V strip[][UNROLL])
{
    const int64_t n = n2 - j0 < STRIP ? n2 - j0 : STRIP;
    for (int64_t k = 0; k < count; k++)
        for (int64_t j = 0; j < n; j++)
            matrix[(j0 + j) * count + (order ? order[k] : k)] += strip[k][j / LANES][j % LANES];
}

INLINE double FOR_LANES(gradient)(const Problem *q, int symmetric, const double *G, double *dW1,
                                  double *dW2, double *dX1, double *dX2, const int inputs)
{
    V X2[MAX_DIM][UNROLL], W2[MAX_BASES][UNROLL], E[MAX_BASES][UNROLL], w[MAX_BASES][UNROLL];
    V x[MAX_DIM][UNROLL], s[UNROLL], b[UNROLL], g[UNROLL]; /* w, x: gradients of a strip */
    double rates[MAX_BASES], damplitude = 0.0;
    const int64_t bases = q->plan.bases, dim = q->dim, *order = q->plan.order;
    FOR_LANES(rates_of_2)(&q->plan, rates);
    for (int64_t j0 = 0; j0 < q->n2; j0 += STRIP) {
        const int64_t n = q->n2 - j0 < STRIP ? q->n2 - j0 : STRIP;
        V sum = {0};
        FOR_LANES(columns)(q->X2, NULL, q->dim, q->n2, j0, X2);
        FOR_LANES(columns)(q->W2, order, bases, q->n2, j0, W2);
        memset(w, 0, bases * sizeof *w);
        memset(x, 0, dim * sizeof *x);
        for (int64_t i = symmetric ? j0 : 0; i < q->n1; i++) {
            FOR_LANES(incoming)(G, q->n2, symmetric, i, j0, n, g);
            FOR_LANES(pairs)(q, rates, i, X2, W2, E, s, b);
            for (int u = 0; u < UNROLL; u++) {
                sum += g[u] * s[u] * b[u];
                g[u] *= q->amplitude;
                s[u] *= g[u];
                b[u] *= g[u];
            }
            V h[UNROLL] = {{0}}; /* dloss/d(-|x - x'|^2 / 2) */
            for (int64_t m = 0; m < bases; m++) {
                const double w1 = q->W1[i * bases + order[m]];
                const double share = -2.0 * q->plan.rates[m] * w1;
                V row = {0};
                for (int u = 0; u < UNROLL; u++) {
                    const V steep = s[u] * E[m][u], pull = b[u] + steep;
                    row += pull * W2[m][u];
                    w[m][u] += pull * w1;
                    if (inputs)
                        h[u] += steep * W2[m][u] * share;
                }
                dW1[i * bases + order[m]] += FOR_LANES(total)(row);
            }
            for (int64_t d = 0; inputs && d < dim; d++) {
                const double from = q->X1[i * dim + d];
                V row = {0};
                for (int u = 0; u < UNROLL; u++) {
                    const V towards = h[u] * (X2[d][u] - from);
                    row += towards;
                    x[d][u] -= towards;
                }
                dX1[i * dim + d] += FOR_LANES(total)(row);
            }
        }
        damplitude += FOR_LANES(total)(sum);
        FOR_LANES(add_columns)(dW2, order, bases, q->n2, j0, w);
        if (inputs)
            FOR_LANES(add_columns)(dX2, NULL, dim, q->n2, j0, x);
    }
    return damplitude;
}

static double FOR_LANES(backward)(const Problem *q, int symmetric, const double *G, double *dW1,
                                  double *dW2, double *dX1, double *dX2)
{
    return dX1 ? FOR_LANES(gradient)(q, symmetric, G, dW1, dW2, dX1, dX2, 1)
               : FOR_LANES(gradient)(q, symmetric, G, dW1, dW2, dX1, dX2, 0);
}

/* The base kernels along one axis, from one coordinate to those of a tile: E [bases][MAX_TILE]. */
INLINE void FOR_LANES(axis)(const Plan *plan, const double *rates, double from, const double *to,
                            int64_t n, double E[][MAX_TILE])
{
    V e[MAX_BASES][UNROLL], squared[UNROLL];
    for (int64_t j0 = 0; j0 < n; j0 += STRIP) {
        FOR_LANES(load_strip)(to + j0, n - j0, squared);
        for (int u = 0; u < UNROLL; u++)
            squared[u] = (squared[u] - from) * (squared[u] - from);
        FOR_LANES(base_kernels)(plan, rates, squared, e);
        for (int64_t m = 0; m < plan->bases; m++)
            FOR_LANES(store_strip)(E[m] + j0, STRIP, e[m]);
    }
}

static void FOR_LANES(grid)(const GridProblem *q, double *restrict K)
{
    double Ex[MAX_BASES][MAX_TILE], Ey[MAX_BASES][MAX_TILE], rates[MAX_BASES];
    const int64_t bases = q->plan.bases, cells = q->rows * q->columns;
    FOR_LANES(rates_of_2)(&q->plan, rates);
    for (int64_t i = 0; i < q->n1; i++) {
        const double *w1 = q->W1 + i * bases;
        FOR_LANES(axis)(&q->plan, rates, q->X1[2 * i], q->x, q->columns, Ex);
        FOR_LANES(axis)(&q->plan, rates, q->X1[2 * i + 1], q->y, q->rows, Ey);
        for (int64_t r = 0; r < q->rows; r++) {
            for (int64_t c0 = 0; c0 < q->columns; c0 += STRIP) {
                const int64_t n = q->columns - c0 < STRIP ? q->columns - c0 : STRIP;
                V s[UNROLL] = {{0}}, b[UNROLL] = {{0}};
                for (int64_t m = 0; m < bases; m++) {
                    const double own = w1[q->plan.order[m]], share = own * Ey[m][r];
                    const double *w2 = q->W2 + (r * bases + m) * MAX_TILE + c0;
                    for (int u = 0; u < UNROLL; u++) {
                        const V w = FOR_LANES(load)(w2 + u * LANES);
                        s[u] += w * own;
                        b[u] += (w * share) * FOR_LANES(load)(Ex[m] + c0 + u * LANES);
                    }
                }
                for (int u = 0; u < UNROLL; u++)
                    s[u] = s[u] * b[u] * q->amplitude;
                FOR_LANES(store_strip)(K + i * cells + r * q->columns + c0, n, s);
            }
        }
    }
}

#undef V
#undef STRIP

#endif
