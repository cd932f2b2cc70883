/* Kriging of a few queries with both covariances, and the gradients of its loss. */

#include "run.h"

#include "conditional.c"

#define SITES 40
#define QUERIES 7
#define NEIGHBOURS 12
#define SIDE 6

static double F[SIDE * SIDE * FIELDS], dF[SIDE * SIDE * FIELDS];
static double x[2 * QUERIES], y[QUERIES], noise[QUERIES], site_x[2 * SITES], site_y[SITES];
static double site_noise[SITES], site_own[SITES], mean[QUERIES], variance[QUERIES], others[3];
static int64_t near[QUERIES * NEIGHBOURS];

static void show_as(const char *kernel, const char *name, const double *values, int64_t n)
{
    printf("%s_", kernel);
    show(name, values, n);
}

static void run(const Problem *q, const char *kernel)
{
    const double jitters[] = {0.0, 1e-8, 1e-6};
    double jitter = 0.0;
    int64_t failed = conditional_predict(q, mean, variance, jitters, 3, &jitter);
    memset(dF, 0, sizeof dF);
    failed += conditional_gradient(q, y, noise, NULL, dF, others, jitters, 3, &jitter);
    const double report[] = {(double)failed, jitter};
    show_as(kernel, "failed_and_jitter", report, 2);
    show_as(kernel, "mean", mean, QUERIES);
    show_as(kernel, "variance", variance, QUERIES);
    show_as(kernel, "loss", others, 3);
    show_as(kernel, "dF", dF, SIDE * SIDE * FIELDS);
}

int main(void)
{
    fill(x, 2 * QUERIES, -0.9, 0.9);
    fill(y, QUERIES, -1.0, 1.0);
    fill(noise, QUERIES, 0.5, 2.0);
    fill(site_x, 2 * SITES, -1.0, 1.0);
    fill(site_y, SITES, -1.0, 1.0);
    fill(site_noise, SITES, 0.5, 2.0);
    fill(site_own, SITES, 0.0, 0.1);
    fill(F, SIDE * SIDE * FIELDS, -0.5, 0.5);
    for (int64_t i = 0; i < QUERIES * NEIGHBOURS; i++)
        near[i] = (7 * (i / NEIGHBOURS) + 3 * (i % NEIGHBOURS)) % SITES; /* none twice */
    near[NEIGHBOURS - 1] = near[2 * NEIGHBOURS - 1] = near[2 * NEIGHBOURS - 2] = -1;

    Problem q = {.queries = QUERIES, .sets = QUERIES, .neighbours = NEIGHBOURS, .side = SIDE,
                 .x_step = 2, .y_step = 1, .noise_step = 1, .own_step = 1, .exponent = 1.3,
                 .noise = 0.1, .low = 0.05, .high = 2.0, .mean_precision = 1e-3, .F = F, .x = x,
                 .near = near,
                 .site_x = site_x, .site_y = site_y, .site_noise = site_noise,
                 .site_own = site_own};
    run(&q, "exponential");
    q.tail = 0.5;
    run(&q, "tail");
    q.shared_variance = 0.05;
    q.shared_sites = 3.0;
    run(&q, "shared");
    return 0;
}
