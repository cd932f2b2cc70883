/* The nearest sites of a few queries: of all, of a share, and such as lie apart. */

#include "run.h"

#include "search.c"

#define SITES 700
#define QUERIES 9
#define NEIGHBOURS 8
#define CELLS 6
#define BUCKETS 2000

static float places[2 * SITES];
static uint32_t number[SITES];
static double x[2 * QUERIES], sites[QUERIES * NEIGHBOURS];
static int64_t chosen[QUERIES * NEIGHBOURS];
static Bucket buckets[BUCKETS] __attribute__((aligned(128)));

static void show_chosen(const char *name)
{
    for (int64_t i = 0; i < QUERIES * NEIGHBOURS; i++)
        sites[i] = (double)chosen[i];
    show(name, sites, QUERIES * NEIGHBOURS);
}

int main(void)
{
    int64_t firsts = 0;
    for (int64_t level = 0; level < LEVELS; level++)
        firsts += ((int64_t)1 << 2 * level) * (CELLS >> level ? CELLS >> level : 1) *
                  (CELLS >> level ? CELLS >> level : 1);
    Grid grid = {.cells = CELLS, .used = firsts, .buckets = buckets};
    for (int64_t i = 0; i < SITES; i++) {
        number[i] = (uint32_t)(uniform() * 0x1p32);
        places[2 * i] = (float)(2.0 * uniform() - 1.0);
        places[2 * i + 1] = (float)(2.0 * uniform() - 1.0);
    }
    search_add(&grid, places, number, 0, SITES / 2);
    search_add(&grid, places, number, SITES / 2, SITES);

    fill(x, 2 * QUERIES, -1.1, 1.1);
    search_spread(&grid, x, 0, QUERIES, NEIGHBOURS, 40, 0.0, 1.0, 0, 0, 0.0, chosen);
    show_chosen("all");
    search_spread(&grid, x, 0, QUERIES, NEIGHBOURS, 40, 0.3, 0.6, 1, 2, 0.0, chosen);
    show_chosen("share");
    search_spread(&grid, x, 0, QUERIES, NEIGHBOURS, 40, 0.0, 1.0, 0, 0, 0.5, chosen);
    show_chosen("apart");
    search_spread(&grid, x, 1, QUERIES, NEIGHBOURS, 40, 0.0, 1.0, 0, 0, 0.0, chosen);
    show_chosen("elsewhere");

    const double used = (double)grid.used, looked = (double)grid.looked_at;
    show("used", &used, 1);
    show("looked", &looked, 1);
    return 0;
}
