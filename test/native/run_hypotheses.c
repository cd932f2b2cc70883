/* The hypotheses of a line over an object, with nonsense, and then with double echoes. */

#include "run.h"

#include "hypotheses.c"

#define LENGTH 80
#define SOUNDINGS (2 * LENGTH)

static double xy[2 * SOUNDINGS], r[SOUNDINGS], scatter[SOUNDINGS], reach[SOUNDINGS];
static double evidence[SOUNDINGS * STATES], as_nonsense[SOUNDINGS], as_run[SOUNDINGS];
static double cost[SOUNDINGS * STATES], skipped[SOUNDINGS * STATES], shown[SOUNDINGS];
static int64_t origin[SOUNDINGS * STATES], found[SOUNDINGS];
static uint8_t jumps[SOUNDINGS * STATES], jumped[SOUNDINGS];

int main(void)
{
    const double changes[] = {0.0,  -9.2, -9.2, -11.5, -4.6, 0.0,  -9.2, -11.5,
                              -4.6, -9.2, 0.0,  -11.5, -4.6, -9.2, -9.2, 0.0};
    const double begins[] = {0.0, -7.6, -8.3, -9.2};
    fill(r, SOUNDINGS, 9.8, 10.2);
    for (int64_t i = 0; i < SOUNDINGS; i++) {
        xy[2 * i] = (double)i;
        scatter[i] = 0.1;
        reach[i] = 6.0;
        as_nonsense[i] = as_run[i] = 3.7;
    }
    for (int64_t i = 20; i < 30; i++)
        r[i] = 0.4 * r[i];
    for (int64_t i = 100; i < 130; i++)
        r[i] = 2.0 * r[i];
    r[50] = 17.0;
    r[70] = 0.03;
    const Paths p = {
        .soundings = SOUNDINGS, .skipped_most = 12, .slope = 0.3, .usual = 1.0, .wide = 3.7,
        .nonsense = -2.3, .repeated = -0.7, .cliffs = -7.0, .grain = 0.1, .exact = 0.02,
        .least_step = 0.05, .beside = 1.2, .no_reading = 0.05, .lost = 0.125, .near = -6.2,
        .no_readings = -4.6, .begins = begins, .changes = changes, .xy = xy, .r = r,
        .scatter = scatter, .reach = reach, .evidence = evidence, .as_nonsense = as_nonsense,
        .as_run = as_run, .cost = cost, .skipped = skipped, .origin = origin, .jumps = jumps};
    hypotheses_find(&p, found, jumped);
    show("cost", cost, SOUNDINGS * STATES);
    show("skipped", skipped, SOUNDINGS * STATES);
    for (int64_t i = 0; i < SOUNDINGS; i++)
        shown[i] = (double)found[i];
    show("found", shown, SOUNDINGS);
    for (int64_t i = 0; i < SOUNDINGS; i++)
        shown[i] = (double)jumped[i];
    show("jumped", shown, SOUNDINGS);
    return 0;
}
