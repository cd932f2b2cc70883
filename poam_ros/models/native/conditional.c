/* Ordinary kriging of many queries from sets of neighbours, and the gradient of its log loss, in
 * plain C with the vectors of GCC and Clang: each lane is a set, and one of its queries at a time.
 *
 *   k_ij = exp(log s_i + log s_j) l_i l_j |D|^(-1/2) exp(-Q^(g/2)),  D = (S_i + S_j)/2,
 *   Q = d' D^-1 d + NEAR,  k_ii = s_i^2;  with a tail t (1 + t Q^(g/2))^(-1/t) for the exponential
 *
 * All arrays are float64, and contiguous but for the sites'. Nothing here allocates or keeps state;
 * every function may run on any thread.
 */

#include "common.h"

#define MAX_NEIGHBOURS 32 /* as in conditional.py */
#define POINTS (MAX_NEIGHBOURS + 1)
#define PAIRS (MAX_NEIGHBOURS * (MAX_NEIGHBOURS + 1) / 2)
#define FIELDS 4
#define ROWS 4            /* of a factor at a time: enough independent work to hide latencies */
#define ISOTROPIC 1e-8    /* as in kernel.py, and NEAR */
#define NEAR 1e-10
#define LEAST_VARIANCE 1e-9 /* as in conditional.py, and REACH */
#define REACH 4.0

typedef struct {
    int64_t queries, sets, neighbours, side; /* side: nodes of the lattice along one axis */
    int64_t x_step, y_step, noise_step, own_step; /* numbers from a site to the next */
    double exponent, noise, low, high, mean_precision, tail; /* low, high: of the lengthscale */
    double shared_variance, shared_sites; /* of the error that successive sites share; 0: none.
                                             Training takes none into account. */
    const double *F;          /* [side, side, FIELDS] */
    const double *x;          /* [queries, 2] */
    const int64_t *near;      /* [sets, neighbours], -1 for none */
    const double *site_x;     /* [sites, 2], and so on, by their steps: in one line of a cache */
    const double *site_y;     /* [sites] */
    const double *site_noise; /* [sites] in units of the noise */
    const double *site_own;   /* [sites] variance of noise beside that; NULL: none has any */
    const int64_t *first;     /* [sets + 1] queries from first[i] to first[i + 1] share near[i];
                                 NULL: each query has a set of its own */
} Problem;

static inline int64_t first_of(const Problem *q, int64_t set)
{
    return q->first ? q->first[set] : set;
}

static inline int64_t size_of(const Problem *q, int64_t set)
{
    return first_of(q, set + 1) - first_of(q, set);
}

typedef struct {
    const double *y, *noise, *own; /* [queries] of the left-out sites; own: see Problem */
    double *dF;                    /* [side, side, FIELDS], added to */
    double loss, exponent, variance;
} Gradient;

#define LN_2 0x1.62e42fefa39efp-1
#define LOG2_TERMS 11
#define SQRT_2 0x1.6a09e667f3bcdp0

INLINE int any(I which)
{
    int any = 0;
    for (int lane = 0; lane < LANES; lane++)
        any |= which[lane] != 0;
    return any;
}

/* log2 x of a normal x > 0: 2 / ln 2 (s + s^3 / 3 + ...), s = (m - 1) / (m + 1). */
INLINE V logarithm(V x)
{
    const I bits = (I)x;
    V power = (V)((bits >> 52) | 0x4330000000000000) - 0x1p52; /* an integer in the low bits */
    V m = (V)((bits & 0x000fffffffffffff) | 0x3ff0000000000000);
    const I large = m > SQRT_2;
    m = choose(large, m * 0.5, m);
    power = choose(large, power - 1022.0, power - 1023.0);
    const V s = (m - 1.0) / (m + 1.0), s2 = s * s;
    V p = (V){0} + 1.0 / (2 * LOG2_TERMS - 1);
    for (int term = LOG2_TERMS - 2; term >= 0; term--)
        p = p * s2 + 1.0 / (2 * term + 1);
    return power + s * p * (2.0 * LOG2_E);
}

INLINE V root(V x)
{
    V root;
    for (int lane = 0; lane < LANES; lane++)
        root[lane] = __builtin_sqrt(x[lane]);
    return root;
}

/* The neighbours of one group of sets and, last, a query of each. */
typedef struct {
    V x[POINTS], y[POINTS], present[POINTS];
    V f[POINTS * FIELDS];
    V scale[POINTS]; /* log2(s l) */
    V A[POINTS], B[POINTS], C[POINTS];
    V target[MAX_NEIGHBOURS], noise[MAX_NEIGHBOURS], own[MAX_NEIGHBOURS], site[MAX_NEIGHBOURS];
    int64_t lost[LANES];                /* whether anything of a lane is not finite */
    int64_t node[POINTS][LANES];        /* lower left corner on the lattice */
    double across[POINTS][LANES], up[POINTS][LANES];
} G;

/* The place of a point on the lattice, and its fields. */
INLINE void place(const Problem *q, G *g, int64_t i, int lane, const double *x)
{
    double share[2];
    int64_t corner[2];
    for (int axis = 0; axis < 2; axis++) {
        /* What is not a number lies at the edge. */
        const double inside = !(x[axis] > -1.0) ? -1.0 : x[axis] > 1.0 ? 1.0 : x[axis];
        const double at = (inside + 1.0) * (0.5 * (q->side - 1));
        corner[axis] = (int64_t)at;
        if (corner[axis] > q->side - 2)
            corner[axis] = q->side - 2;
        share[axis] = at - corner[axis];
    }
    const int64_t node = corner[1] * q->side + corner[0];
    const double *low = q->F + node * FIELDS, *high = low + q->side * FIELDS;
    for (int64_t f = 0; f < FIELDS; f++) {
        const double below = low[f] * (1 - share[0]) + low[f + FIELDS] * share[0];
        const double above = high[f] * (1 - share[0]) + high[f + FIELDS] * share[0];
        g->f[i * FIELDS + f][lane] = below * (1 - share[1]) + above * share[1];
    }
    /* Finite, whatever is made of it: exponentials would make numbers of what is not. */
    double sum = 0.5 * x[0] + 0.5 * x[1];
    for (int64_t f = 0; f < FIELDS; f++)
        sum += g->f[i * FIELDS + f][lane];
    g->lost[lane] |= !isfinite(sum);
    g->node[i][lane] = node;
    g->across[i][lane] = share[0];
    g->up[i][lane] = share[1];
    g->x[i][lane] = x[0];
    g->y[i][lane] = x[1];
}

/* cosh r and sinh r / r. */
INLINE void hyperbolic(V r, V *ch, V *sh)
{
    const V e = power_of_2(r * LOG2_E), inverse = 1.0 / e;
    /* Near zero the difference of the two would lose all digits: r^2/6 + r^4/120 + ... */
    const V r2 = r * r;
    const V series = 1.0 + r2 / 6.0 * (1.0 + r2 / 20.0 * (1.0 + r2 / 42.0 * (1.0 + r2 / 72.0 *
                     (1.0 + r2 / 110.0))));
    *ch = 0.5 * (e + inverse);
    *sh = choose(r < 0.3, series, 0.5 * (e - inverse) / r);
}

INLINE void local(const Problem *q, G *g, int64_t i)
{
    const V *f = g->f + i * FIELDS, u = f[2], w = f[3];
    const V low = (V){0} + log(q->low), high = (V){0} + log(q->high);
    V log_l = f[1], ch, sh;
    log_l = choose(log_l > low, log_l, low);
    log_l = choose(log_l < high, log_l, high);
    hyperbolic(root(u * u + w * w + ISOTROPIC), &ch, &sh);
    const V squared = power_of_2(log_l * (2.0 * LOG2_E));
    g->scale[i] = (f[0] + log_l) * LOG2_E;
    g->A[i] = squared * (ch + sh * u);
    g->B[i] = squared * (ch - sh * u);
    g->C[i] = squared * sh * w;
}

/* Ask for the sites of the group after this one: they lie anywhere in memory. */
INLINE void warm(const Problem *q, int64_t first)
{
    const int64_t k = q->neighbours, end = first + LANES < q->sets ? first + LANES : q->sets;
    for (int64_t i = first * k; i < end * k; i++)
        if (q->near[i] >= 0) {
            __builtin_prefetch(q->site_x + q->x_step * q->near[i]);
            __builtin_prefetch(q->site_y + q->y_step * q->near[i]);
            __builtin_prefetch(q->site_noise + q->noise_step * q->near[i]);
            if (q->site_own)
                __builtin_prefetch(q->site_own + q->own_step * q->near[i]);
        }
}

/* The neighbours of the sets from `first` on; lanes beyond the last repeat it. */
INLINE void gather(const Problem *q, int64_t first, G *g)
{
    const int64_t k = q->neighbours;
    for (int lane = 0; lane < LANES; lane++) {
        const int64_t set = first + lane < q->sets ? first + lane : q->sets - 1;
        g->lost[lane] = 0;
        for (int64_t i = 0; i < k; i++) {
            const int64_t site = q->near[set * k + i];
            const int there = site >= 0;
            place(q, g, i, lane,
                  there ? q->site_x + q->x_step * site : q->x + 2 * first_of(q, set));
            g->present[i][lane] = there;
            g->site[i][lane] = site;
            g->target[i][lane] = there ? q->site_y[q->y_step * site] : 0.0;
            g->noise[i][lane] = there ? q->site_noise[q->noise_step * site] : 0.0;
            g->own[i][lane] = there && q->site_own ? q->site_own[q->own_step * site] : 0.0;
        }
    }
    g->present[k] = (V){0} + 1.0;
}

/* What the kernel and its gradient have in common, of two points. */
typedef struct {
    V dx, dy, A, B, C, det, M; /* D = [[A, C], [C, B]]; M = Q det */
} Pair;

INLINE void pair(const G *g, int64_t i, int64_t j, Pair *p)
{
    p->dx = g->x[i] - g->x[j];
    p->dy = g->y[i] - g->y[j];
    p->A = 0.5 * (g->A[i] + g->A[j]);
    p->B = 0.5 * (g->B[i] + g->B[j]);
    p->C = 0.5 * (g->C[i] + g->C[j]);
    p->det = p->A * p->B - p->C * p->C;
    p->M = p->dx * p->dx * p->B - 2.0 * p->dx * p->dy * p->C + p->dy * p->dy * p->A +
           NEAR * p->det;
}

/* Of a pair: log2 Q and Q^(g/2), which its gradient needs again. */
typedef struct {
    V log_Q, P;
} Power;

/* The covariance of two points, 0 where one is not there. */
INLINE V covariance(const Problem *q, const G *g, int64_t i, int64_t j, Power *kept)
{
    Pair p;
    pair(g, i, j, &p);
    const V log_det = logarithm(p.det), log_Q = logarithm(p.M) - log_det;
    const V P = power_of_2(log_Q * (0.5 * q->exponent));
    kept->log_Q = log_Q;
    kept->P = P;
    const V fall = q->tail > 0.0 ? logarithm(1.0 + q->tail * P) / q->tail : P * LOG2_E;
    return power_of_2(g->scale[i] + g->scale[j] - 0.5 * log_det - fall) * g->present[i] *
           g->present[j];
}

/* Covariance of the errors of two neighbours, which falls with the sites between them. */
INLINE V shared(const Problem *q, const G *g, int64_t i, int64_t j)
{
    const V apart = g->site[i] - g->site[j], size = choose(apart < 0.0, -apart, apart);
    return q->shared_variance * power_of_2(size * (-LOG2_E / q->shared_sites)) * g->present[i] *
           g->present[j];
}

/* Lower triangles are packed by rows. */
#define AT(i, j) ((i) * ((i) + 1) / 2 + (j))

/* s^2 of a point, and of a neighbour its noise too, or 1 where there is none. */
INLINE V amplitude(const G *g, int64_t i)
{
    return power_of_2(g->f[i * FIELDS] * (2.0 * LOG2_E));
}

INLINE V diagonal(const Problem *q, const G *g, int64_t i)
{
    const V own = amplitude(g, i) + q->noise * g->noise[i] + g->own[i] + q->shared_variance;
    return own * g->present[i] + (1.0 - g->present[i]);
}

/* K: the covariances of the neighbours, with noise. */
INLINE void among(const Problem *q, G *g, V *K, Power *powers)
{
    const int64_t k = q->neighbours;
    for (int64_t i = 0; i < k; i++)
        local(q, g, i);
    for (int64_t i = 0; i < k; i++) {
        for (int64_t j = 0; j < i; j++)
            K[AT(i, j)] = covariance(q, g, i, j, powers + AT(i, j));
        K[AT(i, i)] = diagonal(q, g, i);
    }
    for (int64_t i = 0; i < k && q->shared_variance > 0.0; i++)
        for (int64_t j = 0; j < i; j++)
            K[AT(i, j)] += shared(q, g, i, j);
}

/* The `turn`-th query of each set from `first` on becomes the last point; c: its covariances with
 * the neighbours. */
INLINE void toward(const Problem *q, G *g, int64_t first, int64_t turn, V *c, V *c0, Power *powers)
{
    const int64_t k = q->neighbours;
    for (int lane = 0; lane < LANES; lane++) {
        const int64_t set = first + lane < q->sets ? first + lane : q->sets - 1;
        const int64_t last = size_of(q, set) - 1, at = turn < last ? turn : last;
        place(q, g, k, lane, q->x + 2 * (first_of(q, set) + at));
    }
    local(q, g, k);
    for (int64_t i = 0; i < k; i++)
        c[i] = covariance(q, g, k, i, powers + AT(k, i));
    *c0 = amplitude(g, k);
}

/* The Cholesky factor L of K + jitter, and one over its diagonal; lanes that have none say so. */
INLINE I factorise(int64_t k, const V *K, V jitter, V *L, V *inverse)
{
    I failed = (I){0};
    for (int64_t j = 0; j < k; j++) {
        V pivot = K[AT(j, j)] + jitter;
        for (int64_t p = 0; p < j; p++)
            pivot -= L[AT(j, p)] * L[AT(j, p)];
        const I good = (pivot > 0.0) & (pivot < 1e300);
        failed |= ~good;
        pivot = choose(good, pivot, (V){0} + 1.0);
        L[AT(j, j)] = root(pivot);
        inverse[j] = 1.0 / L[AT(j, j)];
        for (int64_t i = j + 1; i < k; i += ROWS) {
            const int64_t rows = k - i < ROWS ? k - i : ROWS;
            V sum[ROWS];
            if (rows == ROWS) {
                for (int r = 0; r < ROWS; r++)
                    sum[r] = K[AT(i + r, j)];
                for (int64_t p = 0; p < j; p++)
                    for (int r = 0; r < ROWS; r++)
                        sum[r] -= L[AT(i + r, p)] * L[AT(j, p)];
            } else {
                for (int64_t r = 0; r < rows; r++) {
                    sum[r] = K[AT(i + r, j)];
                    for (int64_t p = 0; p < j; p++)
                        sum[r] -= L[AT(i + r, p)] * L[AT(j, p)];
                }
            }
            for (int64_t r = 0; r < rows; r++)
                L[AT(i + r, j)] = sum[r] * inverse[j];
        }
    }
    return failed;
}

/* As factorise, with the first of the jitters that it needs, relative to the mean diagonal. */
INLINE I repair(int64_t k, const V *K, V *L, V *inverse, const double *jitters, int64_t attempts,
                V *jitter)
{
    V scale = {0};
    for (int64_t i = 0; i < k; i++)
        scale += K[AT(i, i)] / (double)k;
    *jitter = (V){0};
    I failed = factorise(k, K, *jitter, L, inverse);
    for (int64_t attempt = 1; attempt < attempts; attempt++) {
        if (!any(failed))
            break;
        *jitter = choose(failed, scale * jitters[attempt], *jitter);
        failed = factorise(k, K, *jitter, L, inverse);
    }
    return failed;
}

/* (L L^T)^-1 of three right sides at a time, in place [k][3]. */
INLINE void solve(int64_t k, const V *L, const V *inverse, V b[][3])
{
    for (int64_t i = 0; i < k; i++) {
        for (int64_t p = 0; p < i; p++)
            for (int side = 0; side < 3; side++)
                b[i][side] -= L[AT(i, p)] * b[p][side];
        for (int side = 0; side < 3; side++)
            b[i][side] *= inverse[i];
    }
    for (int64_t i = k - 1; i >= 0; i--) {
        for (int side = 0; side < 3; side++)
            b[i][side] *= inverse[i];
        for (int64_t p = 0; p < i; p++)
            for (int side = 0; side < 3; side++)
                b[p][side] -= L[AT(i, p)] * b[i][side];
    }
}

/* a = K~^-1 y in solved[.][0], b = K~^-1 c~ in solved[.][1]; K~ and c~ hold the unknown mean. */
INLINE void krige(const Problem *q, const G *g, const V *c, V c0, V solved[][3], V *mean,
                  V *variance)
{
    const int64_t k = q->neighbours;
    V precision = (V){0} + q->mean_precision, level = (V){0}, rest = (V){0} + 1.0;
    for (int64_t i = 0; i < k; i++) {
        level += solved[i][0] * g->present[i];
        rest -= solved[i][1] * g->present[i];
        precision += solved[i][2] * g->present[i];
    }
    level /= precision;
    V m = level, v = c0 + rest * rest / precision;
    const V lift = rest / precision;
    for (int64_t i = 0; i < k; i++) {
        solved[i][0] -= level * solved[i][2];
        m += c[i] * solved[i][0];
        v -= c[i] * solved[i][1];
        solved[i][1] += lift * solved[i][2];
    }
    *mean = m;
    *variance = choose(v > LEAST_VARIANCE, v, (V){0} + LEAST_VARIANCE);
}

/* A mean more than REACH deviations outside the range of its neighbours' targets is moved there,
 * which is one more deviation. */
INLINE void limit(const Problem *q, const G *g, V *mean, V *variance)
{
    V low = (V){0} + INFINITY, high = (V){0} - INFINITY;
    for (int64_t i = 0; i < q->neighbours; i++) {
        const I there = g->present[i] > 0.0;
        low = choose(there & (g->target[i] < low), g->target[i], low);
        high = choose(there & (g->target[i] > high), g->target[i], high);
    }
    const V margin = REACH * root(*variance);
    low -= margin;
    high += margin;
    const I under = *mean < low, over = *mean > high, outside = (under | over) & (low < high);
    const V limited = choose(under, low, high), moved = *mean - limited;
    *variance = choose(outside, *variance + moved * moved, *variance);
    *mean = choose(outside, limited, *mean);
}

/* Gradients of one point's fields, onto the lattice. */
INLINE void deposit(const Problem *q, const G *g, int64_t i, const V *d, double *dF)
{
    for (int lane = 0; lane < LANES; lane++) {
        double *low = dF + g->node[i][lane] * FIELDS, *high = low + q->side * FIELDS;
        const double across = g->across[i][lane], up = g->up[i][lane];
        for (int64_t f = 0; f < FIELDS; f++) {
            low[f] += d[f][lane] * (1 - across) * (1 - up);
            low[f + FIELDS] += d[f][lane] * across * (1 - up);
            high[f] += d[f][lane] * (1 - across) * up;
            high[f + FIELDS] += d[f][lane] * across * up;
        }
    }
}

/* Gradients of one point's log s + log l, log l, A, B and C in sums, onto the lattice. */
INLINE void scatter(const Problem *q, const G *g, int64_t i, const V sums[5], double *dF)
{
    const V u = g->f[i * FIELDS + 2], w = g->f[i * FIELDS + 3], log_l = g->f[i * FIELDS + 1];
    const V r2 = u * u + w * w + ISOTROPIC, r = root(r2);
    const I free = (log_l >= log(q->low)) & (log_l <= log(q->high));
    V ch, sh, d[FIELDS];
    hyperbolic(r, &ch, &sh);
    /* d(sinh r / r) / dr / r, by its series near zero */
    const V series = (1.0 + r2 / 10.0 * (1.0 + r2 / 28.0 * (1.0 + r2 / 54.0 * (1.0 + r2 / 88.0)))) /
                     3.0;
    const V bend = choose(r < 0.3, series, (ch - sh) / r2);
    const V log_half = choose(log_l > log(q->low), log_l, (V){0} + log(q->low));
    const V held = choose(log_half < log(q->high), log_half, (V){0} + log(q->high));
    const V squared = power_of_2(held * (2.0 * LOG2_E));
    const V dA = 0.5 * sums[2] * squared, dB = 0.5 * sums[3] * squared, dC = 0.5 * sums[4] * squared;
    d[0] = sums[0];
    d[1] = choose(free, sums[1] + (sums[2] * g->A[i] + sums[3] * g->B[i] +
                                              sums[4] * g->C[i]), (V){0});
    d[2] = dA * (sh * u + bend * u * u + sh) + dB * (sh * u - bend * u * u - sh) + dC * bend * u * w;
    d[3] = dA * (sh * w + bend * w * u) + dB * (sh * w - bend * w * u) + dC * (bend * w * w + sh);
    deposit(q, g, i, d, dF);
}

/* The gradient of the loss of one group, with `by_mean` and `by_variance` its derivatives: of
 * c'a - b'K a and c0 - 2 b'c + b'K b, a and b held. With a = 0 and b = -1 at the query, the
 * covariance of any two points has one formula. */
INLINE void backward(const Problem *q, const G *g, const V *K, const V *c, const Power *powers,
                     const V solved[][3], V by_mean, V by_variance, Gradient *out)
{
    const int64_t k = q->neighbours;
    V sums[POINTS][5], by_exponent = (V){0}, by_noise = (V){0};
    memset(sums, 0, sizeof sums);
    Pair p;
    for (int64_t i = 0; i <= k; i++) {
        const V a_i = i < k ? solved[i][0] : (V){0}, b_i = i < k ? solved[i][1] : (V){0} - 1.0;
        const V push = 2.0 * by_variance * b_i - by_mean * a_i, pull = by_mean * b_i;
        for (int64_t j = 0; j < i; j++) {
            pair(g, i, j, &p);
            const Power power = powers[AT(i, j)];
            const V weight =
                (push * solved[j][1] - pull * solved[j][0]) * (i < k ? K[AT(i, j)] : c[j]);
            V decay = weight * power.P;
            if (q->tail > 0.0)
                decay /= 1.0 + q->tail * power.P;
            const V steep = decay * (0.5 * q->exponent), by_N = -steep / p.M;
            const V by_det = (steep - 0.5 * weight) / p.det + by_N * NEAR;
            const V part[5] = {
                weight, weight, by_N * p.dy * p.dy + by_det * p.B,
                by_N * p.dx * p.dx + by_det * p.A, -2.0 * (by_N * p.dx * p.dy + by_det * p.C),
            };
            for (int s = 0; s < 5; s++) {
                sums[i][s] += part[s];
                sums[j][s] += part[s];
            }
            by_exponent -= decay * power.log_Q;
        }
        const V own = (by_variance * b_i - by_mean * a_i) * b_i * g->present[i];
        sums[i][0] += 2.0 * own * amplitude(g, i);
        if (i < k)
            by_noise += own * g->noise[i];
    }
    for (int64_t i = 0; i <= k; i++)
        scatter(q, g, i, sums[i], out->dF);
    out->exponent += total(by_exponent) * (0.5 * LN_2);
    out->variance += total(by_noise);
}

/* The loss of one group's left-out targets, and its derivatives by mean and variance. */
INLINE void learn(const Problem *q, int64_t first, V mean, V variance, Gradient *out, V *by_mean,
                  V *by_variance)
{
    *by_mean = *by_variance = (V){0};
    const double share = 1.0 / q->queries;
    for (int lane = 0; lane < LANES && first + lane < q->queries; lane++) {
        const double noise = out->noise[first + lane], own = out->own ? out->own[first + lane] : 0.0;
        const double v = variance[lane] + q->noise * noise + own;
        const double error = out->y[first + lane] - mean[lane];
        const double by_v = 0.5 * share * (1.0 - error * error / v) / v;
        out->loss += 0.5 * share * (log(v) + error * error / v);
        out->variance += by_v * noise;
        (*by_mean)[lane] = -share * error / v;
        (*by_variance)[lane] = variance[lane] > LEAST_VARIANCE ? by_v : 0.0;
    }
}

/* Every query: its prediction, or its part of the gradient, or both. */
static int64_t all(const Problem *q, double *mean, double *variance, Gradient *gradient,
                   const double *jitters, int64_t attempts, double *largest)
{
    const int64_t k = q->neighbours;
    V K[PAIRS], L[PAIRS], c[MAX_NEIGHBOURS], inverse[MAX_NEIGHBOURS], solved[MAX_NEIGHBOURS][3];
    V c0, m, v, by_mean, by_variance;
    Power powers[POINTS * (POINTS + 1) / 2];
    G g;
    int64_t beyond_repair = 0;
    *largest = 0.0;
    for (int64_t first = 0; first < q->sets; first += LANES) {
        gather(q, first, &g);
        warm(q, first + LANES);
        among(q, &g, K, powers);
        V jitter;
        const I failed = repair(k, K, L, inverse, jitters, attempts, &jitter);
        int64_t turns = 1, lost[LANES];
        for (int lane = 0; lane < LANES && first + lane < q->sets; lane++) {
            turns = size_of(q, first + lane) > turns ? size_of(q, first + lane) : turns;
            *largest = jitter[lane] > *largest ? jitter[lane] : *largest;
        }
        memcpy(lost, g.lost, sizeof lost);
        for (int64_t turn = 0; turn < turns; turn++) {
            memcpy(g.lost, lost, sizeof lost);
            toward(q, &g, first, turn, c, &c0, powers);
            for (int64_t i = 0; i < k; i++) {
                solved[i][0] = g.target[i];
                solved[i][1] = c[i];
                solved[i][2] = g.present[i];
            }
            solve(k, L, inverse, solved);
            krige(q, &g, c, c0, solved, &m, &v);
            if (mean)
                limit(q, &g, &m, &v);
            for (int lane = 0; lane < LANES && first + lane < q->sets; lane++) {
                if (turn >= size_of(q, first + lane))
                    continue;
                beyond_repair +=
                    failed[lane] != 0 || g.lost[lane] || !isfinite(m[lane]) || !isfinite(v[lane]);
                if (mean) {
                    mean[first_of(q, first + lane) + turn] = m[lane];
                    variance[first_of(q, first + lane) + turn] = v[lane];
                }
            }
        }
        if (!gradient) /* of which each query has a set of its own */
            continue;
        learn(q, first, m, v, gradient, &by_mean, &by_variance);
        backward(q, &g, K, c, powers, (const V(*)[3])solved, by_mean, by_variance, gradient);
    }
    return beyond_repair;
}

/* mean and variance without noise [queries]; jitters [attempts] are tried in turn, relative to the
 * mean of a diagonal, and the largest that was needed is left in jitter. Returns how many queries
 * are beyond repair. */
int64_t conditional_predict(const Problem *q, double *mean, double *variance,
                            const double *jitters, int64_t attempts, double *jitter)
{
    return all(q, mean, variance, NULL, jitters, attempts, jitter);
}

/* Of the mean log loss of y [queries], whose noise is noise [queries] in units of the learned one
 * and own [queries], or NULL, beside it: its gradient by the fields is added to dF; others: itself,
 * by the exponent, by the noise. */
int64_t conditional_gradient(const Problem *q, const double *y, const double *noise,
                             const double *own, double *dF, double *others, const double *jitters,
                             int64_t attempts, double *jitter)
{
    Gradient gradient = {y, noise, own, dF, 0.0, 0.0, 0.0};
    const int64_t failed = all(q, NULL, NULL, &gradient, jitters, attempts, jitter);
    others[0] = gradient.loss;
    others[1] = gradient.exponent;
    others[2] = gradient.variance;
    return failed;
}
