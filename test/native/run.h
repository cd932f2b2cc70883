/* What the programs of this folder share: numbers to compute with, and how results are printed.
 *
 * Each program includes one of the package's C sources, so that it has the structures and the
 * functions of that source whatever they are called there. It reads nothing and allocates nothing.
 */

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* A number in [0, 1), the same on every processor. */
static double uniform(void)
{
    static uint64_t state = 1;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (double)(state >> 11) * 0x1p-53;
}

static void fill(double *values, int64_t n, double low, double high)
{
    for (int64_t i = 0; i < n; i++)
        values[i] = low + (high - low) * uniform();
}

/* One line: a name, then the values to their last bit. */
static void show(const char *name, const double *values, int64_t n)
{
    printf("%s", name);
    for (int64_t i = 0; i < n; i++)
        printf(" %a", values[i]);
    printf("\n");
}
