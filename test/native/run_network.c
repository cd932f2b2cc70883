/* The network of the fields and its gradient, at a few nodes. */

#include "run.h"

#include "network.c"

#define NODES 25
#define HIDDEN 18 /* two rows of vectors in width, the second of them mostly padding */
#define P (HIDDEN * (INPUTS + HIDDEN + 1 + FIELDS) + 2 * FIELDS + 2)

static double theta[P], F[NODES * FIELDS], dF[NODES * FIELDS], gradient[P];
static float x[NODES * INPUTS], room[16384];

int main(void)
{
    fill(theta, P, -1.0, 1.0);
    fill(dF, NODES * FIELDS, 0.1, 1.0);
    for (int64_t i = 0; i < NODES * INPUTS; i++)
        x[i] = i % INPUTS == 2 ? 1.0f : (float)(2.0 * uniform() - 1.0);
    if (network_room(NODES, HIDDEN) > (int64_t)(sizeof room / sizeof *room))
        return 1;
    const Network n = {.nodes = NODES, .hidden = HIDDEN, .x = x, .room = room};
    network_evaluate(&n, theta, F);
    show("fields", F, NODES * FIELDS);
    const Penalties penalties = {.field = 0.1, .anisotropy = 0.2, .spared = 0.9, .weight = 0.01};
    network_gradient(&n, &penalties, theta, F, dF, 0.3, -0.7, gradient);
    show("by_weights", gradient, P - 2 * FIELDS - 2);
    show("by_offsets", gradient + P - FIELDS - 2, FIELDS);
    show("by_others", gradient + P - 2, 2);
    return 0;
}
