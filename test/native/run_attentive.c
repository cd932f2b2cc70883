/* The Attentive Kernel, its gradient and its grid, of a few points. */

#include "run.h"

#include "attentive.c"

#define N1 13
#define N2 11
#define BASES 5
#define COLUMNS 9
#define ROWS 7

static double X1[2 * N1], X2[2 * N2], W1[N1 * BASES], W2[N2 * BASES], K[N1 * N1], G[N1 * N1];
static double dW1[N1 * BASES], dW2[N2 * BASES], dX1[2 * N1], dX2[2 * N2];
static double x[COLUMNS], y[ROWS], Wg[ROWS * BASES * MAX_TILE], Kg[N1 * ROWS * COLUMNS];

int main(void)
{
    /* Lengthscales 0.6, 0.5, 0.3, 0.2, 0.1: the third is half, the fourth a third of the first. */
    const double rates[] = {-0.5 / 0.36, -0.5 / 0.25, -0.5 / 0.09, -0.5 / 0.04, -0.5 / 0.01};
    const int64_t order[] = {4, 3, 2, 1, 0}, source[] = {-1, -1, 0, 0, -1}, power[] = {4, 4, 4, 9, 4};
    const Plan plan = {
        .bases = BASES, .rates = rates, .order = order, .source = source, .power = power,
    };
    fill(X1, 2 * N1, -1.0, 1.0);
    fill(X2, 2 * N2, -1.0, 1.0);
    fill(W1, N1 * BASES, 0.1, 1.0);
    fill(W2, N2 * BASES, 0.1, 1.0);
    fill(G, N1 * N1, 0.1, 1.0);

    const Problem two = {.plan = plan, .n1 = N1, .n2 = N2, .dim = 2, .X1 = X1, .X2 = X2,
                         .W1 = W1, .W2 = W2, .amplitude = 1.7};
    attentive_forward(&two, 0, K);
    show("forward", K, N1 * N2);
    const double by_amplitude = attentive_backward(&two, 0, G, dW1, dW2, dX1, dX2);
    show("by_amplitude", &by_amplitude, 1);
    show("dW1", dW1, N1 * BASES);
    show("dW2", dW2, N2 * BASES);
    show("dX1", dX1, 2 * N1);
    show("dX2", dX2, 2 * N2);

    const Problem one = {.plan = plan, .n1 = N1, .n2 = N1, .dim = 2, .X1 = X1, .X2 = X1,
                         .W1 = W1, .W2 = W1, .amplitude = 1.7};
    attentive_forward(&one, 1, K);
    show("symmetric", K, N1 * N1);

    fill(x, COLUMNS, -1.0, 1.0);
    fill(y, ROWS, -1.0, 1.0);
    for (int64_t i = 0; i < ROWS * BASES; i++)
        fill(Wg + i * MAX_TILE, COLUMNS, 0.1, 1.0);
    const GridProblem grid = {.plan = plan, .n1 = N1, .columns = COLUMNS, .rows = ROWS, .X1 = X1,
                              .x = x, .y = y, .W1 = W1, .W2 = Wg, .amplitude = 1.7};
    attentive_grid(&grid, Kg);
    show("grid", Kg, N1 * ROWS * COLUMNS);
    return 0;
}
