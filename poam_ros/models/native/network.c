/* The network of the fields at the nodes of the lattice, and the gradient of the penalised loss by
 * all that is learned, in plain C with the vectors of GCC and Clang.
 *
 *   F = W3 h2 + b3 + offsets,  h2 = tanh(W2 h1 + b2),  h1 = tanh(W1 x + b1)
 *
 * theta, F and its gradient are float64, the network is float32, and all arrays are contiguous.
 * Nothing here allocates or keeps state; every function may run on any thread.
 */

#include "common.h"

#define FIELDS 4
#define INPUTS 3  /* x, y and a one for the offsets b1 */
#define PADDED 16 /* rows of units are a multiple of this: the longest vector */
#define ROWS 4    /* of a product at a time, by UNROLL vectors: enough work to hide latencies */

/* theta [P] holds W1 [hidden, 2], b1, W2 [hidden, hidden], b2, W3 [FIELDS, hidden], b3, offsets, the
 * logarithm of the noise variance and the logit of half the exponent. */
typedef struct {
    int64_t nodes, hidden;
    const float *x; /* [nodes, INPUTS] */
    float *room;    /* [network_room]: what evaluate leaves for gradient */
} Network;

/* Of the gradients of the penalties: of the fields' variances, of the anisotropy (u, w), the share
 * of its mean that is spared, and of the weights; see NngpTrainer. */
typedef struct {
    double field, anisotropy, spared, weight;
} Penalties;

/* The parts of the room. Rows of units have `width` places, zero beyond `hidden`. */
typedef struct {
    int64_t width;
    float *first, *second, *turned, *b2, *third; /* W1 and b1, W2, its transpose, b2, W3 */
    float *h1, *h2, *d1, *d2;                    /* [nodes, width] units and their gradients */
    float *dF;                                   /* [nodes, FIELDS] */
    float *dfirst, *dsecond, *db2, *dthird;
    int64_t size;
} Room;

static Room laid_out(int64_t nodes, int64_t hidden, float *start)
{
    Room r = {.width = (hidden + PADDED - 1) / PADDED * PADDED};
    const int64_t w = r.width;
    float **const parts[] = {&r.first, &r.second, &r.turned, &r.b2, &r.third, &r.h1, &r.h2, &r.d1,
                             &r.d2, &r.dF, &r.dfirst, &r.dsecond, &r.db2, &r.dthird};
    const int64_t sizes[] = {INPUTS * w, hidden * w, hidden * w, w, FIELDS * w, nodes * w,
                             nodes * w, nodes * w, nodes * w, nodes * FIELDS, INPUTS * w,
                             hidden * w, w, FIELDS * w};
    for (unsigned part = 0; part < sizeof sizes / sizeof *sizes; part++) {
        *parts[part] = start ? start + r.size : NULL;
        r.size += sizes[part];
    }
    return r;
}

/* tanh x = x P(x^2) / Q(x^2) for |x| <= FLAT, to 2e-8 of itself: a fit of least relative error. */
static const float NUMERATOR[] = {
    1.33192746e-8f, 2.05836423e-5f, 3.494045e-3f, 1.33797273e-1f, 1.0f,
};
static const float DENOMINATOR[] = {
    7.76210697e-7f, 3.28310935e-4f, 2.58711129e-2f, 4.67130423e-1f, 1.0f,
};
#define TERMS (sizeof NUMERATOR / sizeof *NUMERATOR)
#define FLAT 9.0f /* beyond, tanh is 1 in float32 */

/* Floats of the room. */
int64_t network_room(int64_t nodes, int64_t hidden)
{
    return laid_out(nodes, hidden, NULL).size;
}

#define WIDTH (2 * LANES)
#define UNROLL (LANES == 8 ? 4 : 2) /* as many vectors as there are registers for */

typedef float Floats __attribute__((vector_size(BYTES)));
/* Floats anywhere in an array. */
typedef float Unaligned __attribute__((vector_size(BYTES), aligned(4), may_alias));
typedef int32_t Signs __attribute__((vector_size(BYTES)));

INLINE Floats load(const float *p)
{
    return *(const Unaligned *)p;
}

INLINE void store(float *p, Floats v)
{
    *(Unaligned *)p = v;
}

INLINE Floats either(Signs which, Floats yes, Floats no)
{
    return (Floats)(((Signs)yes & which) | ((Signs)no & ~which));
}

/* tanh of all n values, in place. */
INLINE void hyperbolic(float *values, int64_t n)
{
    for (int64_t i = 0; i < n; i += WIDTH) {
        Floats x = load(values + i);
        x = either(x > FLAT, (Floats){0} + FLAT, x);
        x = either(x < -FLAT, (Floats){0} - FLAT, x);
        const Floats squared = x * x;
        Floats p = (Floats){0} + NUMERATOR[0], q = (Floats){0} + DENOMINATOR[0];
        for (unsigned term = 1; term < TERMS; term++) {
            p = p * squared + NUMERATOR[term];
            q = q * squared + DENOMINATOR[term];
        }
        store(values + i, x * p / q);
    }
}

/* A tile of `rows` rows and `vectors` vectors of C += A B; see product. */
INLINE void tile(const float *A, int64_t row, int64_t step, const float *B, int64_t depth,
                 int64_t width, int rows, int vectors, float *C)
{
    Floats sum[ROWS][UNROLL], b[UNROLL];
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < vectors; v++)
            sum[r][v] = load(C + r * width + v * WIDTH);
    for (int64_t p = 0; p < depth; p++) {
        for (int v = 0; v < vectors; v++)
            b[v] = load(B + p * width + v * WIDTH);
        for (int r = 0; r < rows; r++)
            for (int v = 0; v < vectors; v++)
                sum[r][v] += A[r * row + p * step] * b[v];
    }
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < vectors; v++)
            store(C + r * width + v * WIDTH, sum[r][v]);
}

/* C [rows, width] += A B, with B [depth, width]; A's numbers are `row` apart from row to row, and
 * `step` along a row. */
INLINE void product(const float *A, int64_t row, int64_t step, const float *B, int64_t rows,
                    int64_t depth, int64_t width, float *C)
{
    for (int64_t c = 0; c < width;) {
        const int whole = c + UNROLL * WIDTH <= width;
        for (int64_t r = 0; r < rows;) {
            const float *const a = A + r * row, *const b = B + c;
            float *const out = C + r * width + c;
            if (r + ROWS <= rows && whole)
                tile(a, row, step, b, depth, width, ROWS, UNROLL, out);
            else if (r + ROWS <= rows)
                tile(a, row, step, b, depth, width, ROWS, 1, out);
            else if (whole)
                tile(a, row, step, b, depth, width, 1, UNROLL, out);
            else
                tile(a, row, step, b, depth, width, 1, 1, out);
            r += r + ROWS <= rows ? ROWS : 1;
        }
        c += whole ? UNROLL * WIDTH : WIDTH;
    }
}

/* d *= 1 - h^2 for n values: from the gradient by tanh x = h to that by x. */
INLINE void through_tanh(float *d, const float *h, int64_t n)
{
    for (int64_t i = 0; i < n; i += WIDTH) {
        const Floats at = load(h + i);
        store(d + i, load(d + i) * (1.0f - at * at));
    }
}

/* The weights of theta in float32, in rows of `width`. */
INLINE void unpack(const Room *r, int64_t H, const double *theta)
{
    const double *W1 = theta, *b1 = W1 + 2 * H, *W2 = b1 + H, *b2 = W2 + H * H, *W3 = b2 + H;
    memset(r->first, 0, sizeof(float) * (size_t)(r->h1 - r->first));
    for (int64_t i = 0; i < H; i++) {
        r->first[i] = (float)W1[2 * i];
        r->first[r->width + i] = (float)W1[2 * i + 1];
        r->first[2 * r->width + i] = (float)b1[i];
        r->b2[i] = (float)b2[i];
        for (int64_t j = 0; j < H; j++)
            r->second[i * r->width + j] = r->turned[j * r->width + i] = (float)W2[i * H + j];
        for (int64_t f = 0; f < FIELDS; f++)
            r->third[f * r->width + i] = (float)W3[f * H + i];
    }
}

/* F [nodes, FIELDS] of theta. */
void network_evaluate(const Network *n, const double *theta, double *F)
{
    const int64_t N = n->nodes, H = n->hidden;
    const Room r = laid_out(N, H, n->room);
    const double *b3 = theta + H * (INPUTS + H + 1 + FIELDS), *offsets = b3 + FIELDS;
    unpack(&r, H, theta);
    memset(r.h1, 0, sizeof(float) * (size_t)(N * r.width));
    product(n->x, INPUTS, 1, r.first, N, INPUTS, r.width, r.h1);
    hyperbolic(r.h1, N * r.width);
    for (int64_t node = 0; node < N; node++)
        memcpy(r.h2 + node * r.width, r.b2, sizeof(float) * (size_t)r.width);
    product(r.h1, r.width, 1, r.turned, N, H, r.width, r.h2);
    hyperbolic(r.h2, N * r.width);
    for (int64_t node = 0; node < N; node++)
        for (int64_t f = 0; f < FIELDS; f++) {
            Floats sum = {0};
            for (int64_t c = 0; c < r.width; c += WIDTH)
                sum += load(r.h2 + node * r.width + c) *
                       load(r.third + f * r.width + c);
            float total = (float)b3[f] + (float)offsets[f];
            for (int lane = 0; lane < WIDTH; lane++)
                total += sum[lane];
            F[node * FIELDS + f] = total;
        }
}

/* The gradient by F with that of the penalties, in float32; its sums over the nodes into total. */
INLINE void penalise(const Penalties *p, const Room *r, int64_t nodes, const double *F,
                     const double *dF, double *total)
{
    const double share[FIELDS] = {1.0, 1.0, p->spared, p->spared};
    const double scale[FIELDS] = {p->field, p->field, p->anisotropy, p->anisotropy};
    double mean[FIELDS] = {0};
    for (int64_t i = 0; i < nodes * FIELDS; i++)
        mean[i % FIELDS] += F[i] / (double)nodes;
    memset(total, 0, FIELDS * sizeof *total);
    for (int64_t i = 0; i < nodes * FIELDS; i++) {
        const int64_t f = i % FIELDS;
        r->dF[i] = (float)(dF[i] + scale[f] * (F[i] - share[f] * mean[f]));
        total[f] += r->dF[i];
    }
}

/* After network_evaluate of the same theta: the gradient [P] of the penalised loss, from that of the
 * loss by F, dF [nodes, FIELDS], by the exponent and by the noise variance. */
void network_gradient(const Network *n, const Penalties *penalties, const double *theta,
                      const double *F, const double *dF, double by_exponent, double by_noise,
                      double *gradient)
{
    const int64_t N = n->nodes, H = n->hidden;
    const Room r = laid_out(N, H, n->room);
    const int64_t w = r.width;
    double *W1 = gradient, *b1 = W1 + 2 * H, *W2 = b1 + H, *b2 = W2 + H * H, *W3 = b2 + H;
    double *b3 = W3 + FIELDS * H;
    penalise(penalties, &r, N, F, dF, b3);
    memcpy(b3 + FIELDS, b3, FIELDS * sizeof *b3);
    memset(r.d1, 0, sizeof(float) * (size_t)(2 * N * w));
    memset(r.dfirst, 0, sizeof(float) * (size_t)(r.size - (r.dfirst - r.first)));
    /* d2 = (dF W3) (1 - h2^2), d1 = (d2 W2) (1 - h1^2) */
    product(r.dF, FIELDS, 1, r.third, N, FIELDS, w, r.d2);
    through_tanh(r.d2, r.h2, N * w);
    product(r.d2, w, 1, r.second, N, H, w, r.d1);
    through_tanh(r.d1, r.h1, N * w);
    /* dW3 = dF^T h2, dW2 = d2^T h1, db2 = d2^T 1, and dW1 and db1 = d1^T (x, 1) transposed */
    product(r.dF, 1, FIELDS, r.h2, FIELDS, N, w, r.dthird);
    product(r.d2, 1, w, r.h1, H, N, w, r.dsecond);
    product(n->x + 2, 0, INPUTS, r.d2, 1, N, w, r.db2);
    product(n->x, 1, INPUTS, r.d1, INPUTS, N, w, r.dfirst);
    for (int64_t i = 0; i < H; i++) {
        W1[2 * i] = r.dfirst[i];
        W1[2 * i + 1] = r.dfirst[w + i];
        b1[i] = r.dfirst[2 * w + i];
        b2[i] = r.db2[i];
        for (int64_t j = 0; j < H; j++)
            W2[i * H + j] = r.dsecond[i * w + j];
        for (int64_t f = 0; f < FIELDS; f++)
            W3[f * H + i] = r.dthird[f * w + i];
    }
    for (int64_t i = 0; i < b3 + FIELDS - gradient; i++)
        gradient[i] += penalties->weight * theta[i];
    const int64_t rest = b3 + 2 * FIELDS - gradient;
    const double half = 1.0 / (1.0 + exp(-theta[rest + 1]));
    gradient[rest] = by_noise * exp(theta[rest]);
    gradient[rest + 1] = by_exponent * 2.0 * half * (1.0 - half);
}
