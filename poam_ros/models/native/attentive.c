/* The Attentive Kernel and its gradient in one pass, in plain C with the vectors of GCC and Clang.
 *
 *   K_ij = a s_ij b_ij,  s_ij = w_i . w_j,  b_ij = sum_m w_im w_jm exp(-|x_i - x_j|^2 / (2 l_m^2))
 *
 * All arrays are float64 and contiguous. Nothing here allocates or keeps state; every function may
 * run on any thread.
 */

#include "common.h"

#define MAX_BASES 32
#define MAX_DIM 8
#define MAX_TILE 64 /* rows and columns of a piece of a grid */
#define UNROLL 4    /* vectors at a time: enough independent work to hide latencies */
#define STRIP (UNROLL * LANES) /* columns at a time */

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

/* A vector anywhere in an array. (Compilers copy it in halves where memcpy is asked to.) */
typedef double Unaligned __attribute__((vector_size(BYTES), aligned(8), may_alias));

INLINE V load(const double *p)
{
    return *(const Unaligned *)p;
}

INLINE void store(double *p, V v)
{
    *(Unaligned *)p = v;
}

/* A strip of n columns from p; zero beyond. */
INLINE void load_strip(const double *p, int64_t n, V strip[UNROLL])
{
    if (n >= STRIP) {
        for (int u = 0; u < UNROLL; u++)
            strip[u] = load(p + u * LANES);
        return;
    }
    for (int u = 0; u < UNROLL; u++) {
        V v = {0};
        for (int lane = 0; lane < LANES && u * LANES + lane < n; lane++)
            v[lane] = p[u * LANES + lane];
        strip[u] = v;
    }
}

INLINE void store_strip(double *p, int64_t n, const V strip[UNROLL])
{
    if (n >= STRIP) {
        for (int u = 0; u < UNROLL; u++)
            store(p + u * LANES, strip[u]);
        return;
    }
    for (int u = 0; u < UNROLL; u++)
        for (int lane = 0; lane < LANES && u * LANES + lane < n; lane++)
            p[u * LANES + lane] = strip[u][lane];
}

/* All base kernels E [bases][UNROLL] of squared distances. */
INLINE void base_kernels(const Plan *plan, const double *rates, const V *squared, V E[][UNROLL])
{
    for (int64_t m = 0; m < plan->bases; m++) {
        if (plan->source[m] < 0) {
            for (int u = 0; u < UNROLL; u++)
                E[m][u] = power_of_2(squared[u] * rates[m]);
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
INLINE void rates_of_2(const Plan *plan, double *rates)
{
    for (int64_t m = 0; m < plan->bases; m++)
        rates[m] = plan->rates[m] * LOG2_E;
}

/* A strip of rows of a matrix [n2, count], transposed; zero beyond its end. */
INLINE void columns(const double *matrix, const int64_t *order, int64_t count, int64_t n2,
                    int64_t j0, V strip[][UNROLL])
{
    const int64_t n = n2 - j0 < STRIP ? n2 - j0 : STRIP;
    for (int64_t k = 0; k < count; k++) {
        double column[STRIP] = {0};
        for (int64_t j = 0; j < n; j++)
            column[j] = matrix[(j0 + j) * count + (order ? order[k] : k)];
        load_strip(column, STRIP, strip[k]);
    }
}

/* E, s and b of row i and one strip of columns. */
INLINE void pairs(const Problem *q, const double *rates, int64_t i, V X2[][UNROLL], V W2[][UNROLL],
                  V E[][UNROLL], V s[UNROLL], V b[UNROLL])
{
    V squared[UNROLL] = {{0}};
    for (int64_t d = 0; d < q->dim; d++) {
        const double x = q->X1[i * q->dim + d];
        for (int u = 0; u < UNROLL; u++) {
            const V difference = X2[d][u] - x;
            squared[u] += difference * difference;
        }
    }
    base_kernels(&q->plan, rates, squared, E);
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

/* K [n1, n2]; if symmetric, x1 is x2 and the upper triangle is a copy of the lower. */
void attentive_forward(const Problem *q, int symmetric, double *restrict K)
{
    V X2[MAX_DIM][UNROLL], W2[MAX_BASES][UNROLL], E[MAX_BASES][UNROLL], s[UNROLL], b[UNROLL];
    double rates[MAX_BASES];
    rates_of_2(&q->plan, rates);
    for (int64_t j0 = 0; j0 < q->n2; j0 += STRIP) {
        const int64_t n = q->n2 - j0 < STRIP ? q->n2 - j0 : STRIP;
        columns(q->X2, NULL, q->dim, q->n2, j0, X2);
        columns(q->W2, q->plan.order, q->plan.bases, q->n2, j0, W2);
        for (int64_t i = symmetric ? j0 : 0; i < q->n1; i++) {
            pairs(q, rates, i, X2, W2, E, s, b);
            for (int u = 0; u < UNROLL; u++)
                s[u] = s[u] * b[u] * q->amplitude;
            const int64_t end = symmetric && i - j0 + 1 < n ? i - j0 + 1 : n;
            store_strip(K + i * q->n2 + j0, end, s);
            for (int64_t j = 0; symmetric && j < end; j++)
                K[(j0 + j) * q->n2 + i] = K[i * q->n2 + j0 + j];
        }
    }
}

/* Row i of G in one strip, zero beyond its border. If symmetric, a pair is met once only, below
 * the diagonal, and stands for both of its entries. */
INLINE void incoming(const double *G, int64_t n2, int symmetric, int64_t i, int64_t j0, int64_t n,
                     V g[UNROLL])
{
    const int64_t below = symmetric && i - j0 < n ? i - j0 : n;
    load_strip(G + i * n2 + j0, symmetric && below < n ? below + 1 : n, g);
    if (!symmetric)
        return;
    double mirrored[STRIP] = {0};
    for (int64_t j = 0; j < below; j++)
        mirrored[j] = G[(j0 + j) * n2 + i];
    for (int u = 0; u < UNROLL; u++)
        g[u] += load(mirrored + u * LANES);
}

/* Adds a strip to rows of a matrix [n2, count]. */
INLINE void add_columns(double *matrix, const int64_t *order, int64_t count, int64_t n2, int64_t j0,
                        V strip[][UNROLL])
{
    const int64_t n = n2 - j0 < STRIP ? n2 - j0 : STRIP;
    for (int64_t k = 0; k < count; k++)
        for (int64_t j = 0; j < n; j++)
            matrix[(j0 + j) * count + (order ? order[k] : k)] += strip[k][j / LANES][j % LANES];
}

INLINE double gradient(const Problem *q, int symmetric, const double *G, double *dW1, double *dW2,
                       double *dX1, double *dX2, const int inputs)
{
    V X2[MAX_DIM][UNROLL], W2[MAX_BASES][UNROLL], E[MAX_BASES][UNROLL], w[MAX_BASES][UNROLL];
    V x[MAX_DIM][UNROLL], s[UNROLL], b[UNROLL], g[UNROLL]; /* w, x: gradients of a strip */
    double rates[MAX_BASES], damplitude = 0.0;
    const int64_t bases = q->plan.bases, dim = q->dim, *order = q->plan.order;
    rates_of_2(&q->plan, rates);
    for (int64_t j0 = 0; j0 < q->n2; j0 += STRIP) {
        const int64_t n = q->n2 - j0 < STRIP ? q->n2 - j0 : STRIP;
        V sum = {0};
        columns(q->X2, NULL, q->dim, q->n2, j0, X2);
        columns(q->W2, order, bases, q->n2, j0, W2);
        memset(w, 0, bases * sizeof *w);
        memset(x, 0, dim * sizeof *x);
        for (int64_t i = symmetric ? j0 : 0; i < q->n1; i++) {
            incoming(G, q->n2, symmetric, i, j0, n, g);
            pairs(q, rates, i, X2, W2, E, s, b);
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
                dW1[i * bases + order[m]] += total(row);
            }
            for (int64_t d = 0; inputs && d < dim; d++) {
                const double from = q->X1[i * dim + d];
                V row = {0};
                for (int u = 0; u < UNROLL; u++) {
                    const V towards = h[u] * (X2[d][u] - from);
                    row += towards;
                    x[d][u] -= towards;
                }
                dX1[i * dim + d] += total(row);
            }
        }
        damplitude += total(sum);
        add_columns(dW2, order, bases, q->n2, j0, w);
        if (inputs)
            add_columns(dX2, NULL, dim, q->n2, j0, x);
    }
    return damplitude;
}

/* From G = dloss/dK: dW1 [n1, bases], dW2 [n2, bases] and, unless they are null, dX1 [n1, dim] and
 * dX2 [n2, dim] (all added to), and dloss/da as the result. If symmetric, x1 is x2, and dW1 may be
 * dW2, and dX1 may be dX2. */
double attentive_backward(const Problem *q, int symmetric, const double *G, double *dW1,
                          double *dW2, double *dX1, double *dX2)
{
    return dX1 ? gradient(q, symmetric, G, dW1, dW2, dX1, dX2, 1)
               : gradient(q, symmetric, G, dW1, dW2, dX1, dX2, 0);
}

/* The base kernels along one axis, from one coordinate to those of a tile: E [bases][MAX_TILE]. */
INLINE void axis(const Plan *plan, const double *rates, double from, const double *to, int64_t n,
                 double E[][MAX_TILE])
{
    V e[MAX_BASES][UNROLL], squared[UNROLL];
    for (int64_t j0 = 0; j0 < n; j0 += STRIP) {
        load_strip(to + j0, n - j0, squared);
        for (int u = 0; u < UNROLL; u++)
            squared[u] = (squared[u] - from) * (squared[u] - from);
        base_kernels(plan, rates, squared, e);
        for (int64_t m = 0; m < plan->bases; m++)
            store_strip(E[m] + j0, STRIP, e[m]);
    }
}

/* K [n1, rows, columns] against the points of a grid, whose base kernels are products of one
 * factor for each axis. */
void attentive_grid(const GridProblem *q, double *restrict K)
{
    double Ex[MAX_BASES][MAX_TILE], Ey[MAX_BASES][MAX_TILE], rates[MAX_BASES];
    const int64_t bases = q->plan.bases, cells = q->rows * q->columns;
    rates_of_2(&q->plan, rates);
    for (int64_t i = 0; i < q->n1; i++) {
        const double *w1 = q->W1 + i * bases;
        axis(&q->plan, rates, q->X1[2 * i], q->x, q->columns, Ex);
        axis(&q->plan, rates, q->X1[2 * i + 1], q->y, q->rows, Ey);
        for (int64_t r = 0; r < q->rows; r++) {
            for (int64_t c0 = 0; c0 < q->columns; c0 += STRIP) {
                const int64_t n = q->columns - c0 < STRIP ? q->columns - c0 : STRIP;
                V s[UNROLL] = {{0}}, b[UNROLL] = {{0}};
                for (int64_t m = 0; m < bases; m++) {
                    const double own = w1[q->plan.order[m]], share = own * Ey[m][r];
                    const double *w2 = q->W2 + (r * bases + m) * MAX_TILE + c0;
                    for (int u = 0; u < UNROLL; u++) {
                        const V w = load(w2 + u * LANES);
                        s[u] += w * own;
                        b[u] += (w * share) * load(Ex[m] + c0 + u * LANES);
                    }
                }
                for (int u = 0; u < UNROLL; u++)
                    s[u] = s[u] * b[u] * q->amplitude;
                store_strip(K + i * cells + r * q->columns + c0, n, s);
            }
        }
    }
}
