/* One of the compiled sources with odd inputs, for a compiler's sanitizers: see test_native.py,
 * which defines SOURCE and one of SEARCH, CONDITIONAL,
 * NETWORK, HYPOTHESES and ATTENTIVE. */

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include SOURCE

static const double ODD[] = {NAN, INFINITY, -INFINITY, 1e300, -1e300, 1e-310, -0.0, 1.0, -1.0, 0.3};
#define ODDS ((int64_t)(sizeof ODD / sizeof *ODD))

/* An array from an address on that no vector is aligned to. */
static double *doubles(int64_t n)
{
    double *p = calloc((size_t)n + 1, sizeof *p);
    assert(p);
    return p + 1;
}

static void release(double *p)
{
    free(p - 1);
}

static double uniform(void)
{
    return 2.0 * rand() / RAND_MAX - 1.0;
}

#ifdef SEARCH

/* Sites that are at random, at one place, and where nothing can be. */
static void fill(float *x, uint32_t *number, int64_t n, int kind)
{
    for (int64_t i = 0; i < n; i++) {
        for (int axis = 0; axis < 2; axis++)
            x[2 * i + axis] = kind == 0 ? (float)uniform()
                            : kind == 1 ? 0.25f
                            : i % 3     ? (float)uniform()
                                        : (float)(ODD[i % 3 ? 9 : i / 3 % 3]);
        number[i] = (uint32_t)rand() * 2u;
    }
}

static void searched(int64_t n, int64_t cells, int kind)
{
    Grid grid = {cells, 0, 0, NULL};
    grid.used = firsts_of(&grid, LEVELS, 0);
    grid.buckets = aligned_alloc(128, (size_t)(grid.used + LEVELS * n) * sizeof(Bucket));
    memset(grid.buckets, 0, (size_t)(grid.used + LEVELS * n) * sizeof(Bucket));
    float *x = calloc((size_t)(2 * n + 1), sizeof *x);
    uint32_t *number = calloc((size_t)(n + 1), sizeof *number);
    fill(x, number, n, kind);
    search_add(&grid, x, number, 0, n);
    double *queries = doubles(2 * ODDS * ODDS);
    for (int64_t i = 0; i < ODDS * ODDS; i++) {
        queries[2 * i] = ODD[i / ODDS];
        queries[2 * i + 1] = ODD[i % ODDS];
    }
    const int64_t sizes[][2] = {{1, 1}, {24, 96}, {32, 1000}, {32, 5000}};
    for (int s = 0; s < 4; s++)
        for (int way = 0; way < 8; way++) {
            const int64_t k = sizes[s][0];
            int64_t *chosen = calloc((size_t)(ODDS * ODDS * k), sizeof *chosen);
            search_spread(&grid, queries, way & 1, ODDS * ODDS, k, sizes[s][1],
                          way & 2 ? 0.9 : 0.0, way & 2 ? 0.3 : 1.0, way & 2 ? 1 : 0, 0,
                          way & 4 ? 0.2 : 0.0, chosen);
            for (int64_t i = 0; i < ODDS * ODDS * k; i++)
                assert(chosen[i] >= -1 && chosen[i] < n);
            free(chosen);
        }
    search_spread(&grid, queries, 0, 0, 1, 1, 0.0, 1.0, 0, 0, 0.0, NULL);
    release(queries);
    free(grid.buckets);
    free(x);
    free(number);
}

int main(void)
{
    for (int kind = 0; kind < 3; kind++) {
        searched(0, 1, kind);
        searched(1, 1, kind);
        searched(300, 4, kind);
        searched(3000, 16, kind);
    }
    return 0;
}

#elif defined(CONDITIONAL)

static const double JITTERS[] = {0.0, 1e-8, 1e-6, 1e-4};

/* So many queries from k neighbours of 40 sites; odd: what is not finite, by kind. */
static void predicted(int64_t queries, int64_t k, int odd)
{
    enum { SIDE = 3, SITES = 40 };
    double *F = doubles(SIDE * SIDE * FIELDS), *dF = doubles(SIDE * SIDE * FIELDS);
    double *x = doubles(2 * queries), *rows = doubles(4 * SITES), *own = doubles(SITES);
    double *mean = doubles(queries), *variance = doubles(queries), *y = doubles(queries);
    int64_t *near = calloc((size_t)(queries * k + 1), sizeof *near), lost = 0;
    double jitter, others[3];
    for (int64_t i = 0; i < SIDE * SIDE * FIELDS; i++)
        F[i] = 0.3 * uniform();
    for (int64_t i = 0; i < SITES; i++) {
        rows[4 * i] = i % 4 ? uniform() : 0.5;
        rows[4 * i + 1] = i % 4 ? uniform() : 0.5;
        rows[4 * i + 2] = i % 5 ? uniform() : 1e3;
        rows[4 * i + 3] = odd == 1 ? 0.0 : 1.0;
        own[i] = 0.01 * (i % 3);
    }
    for (int64_t i = 0; i < queries * k; i++)
        near[i] = odd == 2 || i % 11 == 10 ? -1 : i % SITES;
    for (int64_t i = 0; i < queries; i++) {
        x[2 * i] = odd == 3 ? ODD[i % ODDS] : uniform();
        x[2 * i + 1] = odd == 3 ? ODD[i / ODDS % ODDS] : uniform();
        lost += !isfinite(x[2 * i]) || !isfinite(x[2 * i + 1]);
    }
    if (odd == 4)
        rows[0] = rows[6] = F[5] = NAN;
    const Problem q = {queries, queries, k, SIDE, 4, 4, 4, 1, 1.9, 1e-3, 0.02, 3.0, 0.05,
                       k % 2 ? 10.0 : 0.0, k % 3 ? 0.1 : 0.0, 1.0 + odd, F, x, near, rows, rows + 2,
                       rows + 3, odd ? own : NULL, NULL};
    /* The same, three queries to a set of neighbours. */
    const int64_t sets = (queries + 2) / 3;
    int64_t *first = malloc((size_t)(sets + 1) * sizeof *first);
    for (int64_t i = 0; i <= sets; i++)
        first[i] = 3 * i < queries ? 3 * i : queries;
    Problem shared = q;
    shared.sets = sets;
    shared.first = first;
    int64_t failed = conditional_predict(&shared, mean, variance, JITTERS, 4, &jitter);
    assert(failed >= lost && failed <= queries);
    free(first);
    failed = conditional_predict(&q, mean, variance, JITTERS, 4, &jitter);
    assert(failed >= lost && failed <= queries);
    assert(odd == 3 || odd == 4 || failed == 0);
    for (int64_t i = 0; i < queries && odd != 3 && odd != 4; i++)
        assert(isfinite(mean[i]) && variance[i] > 0.0);
    conditional_gradient(&q, y, y, odd ? y : NULL, dF, others, JITTERS, 4, &jitter);
    double *all[] = {F, dF, x, rows, own, mean, variance, y};
    for (int i = 0; i < 8; i++)
        release(all[i]);
    free(near);
}

int main(void)
{
    const int64_t sizes[] = {0, 1, 7, 9, ODDS * ODDS};
    for (int odd = 0; odd < 5; odd++)
        for (int s = 0; s < 5; s++) {
            predicted(sizes[s], 1, odd);
            predicted(sizes[s], 24, odd);
            predicted(sizes[s], MAX_NEIGHBOURS, odd);
        }
    return 0;
}

#elif defined(NETWORK)

/* The network with so many units at so many nodes; odd: with what is not finite. */
static void trained(int64_t nodes, int64_t hidden, int odd)
{
    const int64_t P = hidden * (INPUTS + hidden + 1 + FIELDS) + 2 * FIELDS + 2;
    float *x = calloc((size_t)(nodes * INPUTS) + 1, sizeof *x);
    float *room = malloc((size_t)(network_room(nodes, hidden) + 1) * sizeof *room);
    double *theta = doubles(P), *F = doubles(nodes * FIELDS), *dF = doubles(nodes * FIELDS);
    double *gradient = doubles(P);
    assert(x && room);
    for (int64_t i = 0; i < nodes * INPUTS; i++)
        x[1 + i] = i % INPUTS == 2 ? 1.0f : (float)uniform();
    for (int64_t i = 0; i < P; i++)
        theta[i] = odd & 1 ? ODD[i % ODDS] : 3.0 * uniform();
    for (int64_t i = 0; i < nodes * FIELDS; i++)
        dF[i] = odd & 2 ? ODD[i * 3 % ODDS] : uniform();
    const Network n = {nodes, hidden, x + 1, room + 1};
    const Penalties penalties = {0.1, 0.1, 0.9, 0.01};
    network_evaluate(&n, theta, F);
    network_gradient(&n, &penalties, theta, F, dF, odd ? INFINITY : 0.1, odd ? NAN : 0.1, gradient);
    for (int64_t i = 0; !odd && i < P; i++)
        assert(isfinite(gradient[i]));
    double *all[] = {theta, F, dF, gradient};
    for (int i = 0; i < 4; i++)
        release(all[i]);
    free(x);
    free(room);
}

int main(void)
{
    const int64_t sides[] = {1, 2, 4, 25}, hidden[] = {1, 3, 4, 16, 17, 65};
    for (int odd = 0; odd < 4; odd++)
        for (int i = 0; i < 4; i++)
            for (int j = 0; j < 6; j++)
                trained(sides[i] * sides[i], hidden[j], odd);
    return 0;
}

#elif defined(HYPOTHESES)

/* Lines of so many soundings; odd: with numbers that are not finite, by kind. */
static void found_in(int64_t lines, int64_t length, int odd)
{
    const int64_t n = lines * length;
    const double logs[] = {0.0, -2.0, -3.0, -9.0, -2.0, 0.0, -9.0, -9.0,
                           -2.0, -9.0, 0.0, -9.0, -2.0, -9.0, -9.0, 0.0};
    int64_t *found = calloc((size_t)n + 1, sizeof *found);
    int64_t *origin = calloc((size_t)(n * STATES) + 1, sizeof *origin);
    uint8_t *jumped = malloc((size_t)n + 1), *jumps = malloc((size_t)(n * STATES) + 1);
    double *xy = doubles(2 * n), *cost = doubles(n * STATES), *skipped = doubles(n * STATES);
    double *evidence = doubles(n * STATES), *each[5];
    for (int k = 0; k < 5; k++)
        each[k] = doubles(n);
    for (int64_t i = 0; i < n; i++) {
        xy[2 * i] = odd == 1 ? ODD[i % ODDS] : (double)i;
        for (int s = 0; s < STATES; s++)
            evidence[STATES * i + s] = odd == 2 ? ODD[(i + s) % ODDS] : uniform();
        each[0][i] = odd == 3 ? ODD[i % ODDS] : i % 50 < 9 ? 4.0 : 9.0 + uniform();
        each[1][i] = odd == 4 ? ODD[i % ODDS] : 0.1;
        each[2][i] = odd == 5 ? ODD[i % ODDS] : 5.0;
        each[3][i] = each[4][i] = odd == 6 ? ODD[i % ODDS] : 3.0;
    }
    const Paths p = {n, 12, 0.3, 1.0, 3.5, -2.3, -0.7, -7.0, 0.1, 0.02, 0.05, 1.2, 0.05, 0.125,
                     -6.2, -4.6, logs, logs, xy, each[0], each[1], each[2], evidence, each[3], each[4],
                     cost, skipped, origin, jumps};
    hypotheses_find(&p, found, jumped);
    for (int64_t i = 0; i < n; i++)
        assert(found[i] >= -1 && found[i] < STATES && jumped[i] <= 1);
    for (int k = 0; k < 5; k++)
        release(each[k]);
    double *all[] = {xy, cost, skipped, evidence};
    for (int i = 0; i < 4; i++)
        release(all[i]);
    void *others[] = {found, origin, jumped, jumps};
    for (int i = 0; i < 4; i++)
        free(others[i]);
}

int main(void)
{
    for (int odd = 0; odd < 7; odd++) {
        found_in(0, 0, odd);
        found_in(3, 1, odd);
        found_in(2, 5, odd);
        found_in(2, 300, odd);
    }
    return 0;
}

#else

static void covered(int64_t n1, int64_t n2, int odd)
{
    enum { BASES = 3, DIM = 2 };
    static const int64_t order[] = {2, 1, 0}, source[] = {-1, 0, -1}, power[] = {4, 4, 4};
    static const double rates[] = {-2.0, -8.0, -100.0};
    const Plan plan = {BASES, rates, order, source, power};
    double *X1 = doubles(DIM * n1), *X2 = doubles(DIM * n2), *W1 = doubles(BASES * n1);
    double *W2 = doubles(BASES * n2), *K = doubles(n1 * n2), *G = doubles(n1 * n2);
    double *dW1 = doubles(BASES * n1), *dW2 = doubles(BASES * n2);
    double *dX1 = doubles(DIM * n1), *dX2 = doubles(DIM * n2);
    for (int64_t i = 0; i < DIM * n1; i++)
        X1[i] = odd ? ODD[i % ODDS] : uniform();
    for (int64_t i = 0; i < DIM * n2; i++)
        X2[i] = uniform();
    for (int64_t i = 0; i < BASES * n1; i++)
        W1[i] = odd ? ODD[i * 3 % ODDS] : 0.3;
    for (int64_t i = 0; i < BASES * n2; i++)
        W2[i] = 0.3;
    const Problem q = {plan, n1, n2, DIM, X1, X2, W1, W2, 1.5};
    attentive_forward(&q, 0, K);
    attentive_backward(&q, 0, G, dW1, dW2, dX1, dX2);
    attentive_backward(&q, 0, G, dW1, dW2, NULL, NULL);
    if (n1 == n2) {
        const Problem same = {plan, n1, n1, DIM, X1, X1, W1, W1, 1.5};
        attentive_forward(&same, 1, K);
    }
    if (n2 <= MAX_TILE) {
        double *padded = doubles(n2 * BASES * MAX_TILE), *grid = doubles(n1 * n2 * n2);
        const GridProblem g = {plan, n1, n2, n2, X1, X2, X2, W1, padded, 1.5};
        attentive_grid(&g, grid);
        release(padded);
        release(grid);
    }
    double *all[] = {X1, X2, W1, W2, K, G, dW1, dW2, dX1, dX2};
    for (int i = 0; i < 10; i++)
        release(all[i]);
}

int main(void)
{
    const int64_t sizes[] = {0, 1, 8, 33, 64, 65};
    for (int odd = 0; odd < 2; odd++)
        for (int i = 0; i < 6; i++)
            for (int j = 0; j < 6; j++)
                covered(sizes[i], sizes[j], odd);
    return 0;
}

#endif
