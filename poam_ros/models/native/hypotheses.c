/* The likeliest hypothesis of each sounding (Viterbi 1967); as screening/hypotheses.py, which explains
 * the densities. A sounding before another is left out where its costs alone are too high, which
 * changes nothing. */

#include "common.h"

#define STATES 4 /* bottom, double echo, triple echo, smooth run of something else */
#define RUN 3
#define TWO_PI 6.283185307179586

static const double FACTORS[STATES] = {1.0, 2.0, 3.0, 1.0};
static const double LOG_FACTORS[STATES] = {0.0, 0.6931471805599453, 1.0986122886681098, 0.0};

typedef struct {
    int64_t soundings, skipped_most;
    double slope, usual, wide;
    double nonsense, repeated, cliffs; /* logs of rates */
    double grain, exact, least_step, beside, no_reading, lost;
    double near, no_readings; /* logs */
    const double *begins, *changes; /* [STATES], [STATES, STATES]: logs */
    const double *xy, *r, *scatter, *reach, *evidence, *as_nonsense, *as_run; /* of soundings */
    double *cost, *skipped; /* room for [soundings, STATES] */
    int64_t *origin; /* for [soundings, STATES] */
    uint8_t *jumps; /* for [soundings, STATES] */
} Paths;

static double log_add(double x, double y)
{
    if (x == y)
        return x + 0.6931471805599453;
    return x > y ? x + log1p(exp(y - x)) : y + log1p(exp(x - y));
}

static double log_normal(double error, double variance)
{
    return -0.5 * (error * error / variance + log(TWO_PI * variance));
}

static double away(const Paths *p, int64_t a, int64_t b)
{
    return hypot(p->xy[2 * a] - p->xy[2 * b], p->xy[2 * a + 1] - p->xy[2 * b + 1]);
}

/* The largest log density of any step to a row, and a bit more. */
static double most_likely(const Paths *p, int64_t row)
{
    double most = -0.5 * log(TWO_PI) - log(p->least_step), change = p->no_readings;
    const double cliff = p->cliffs + log(fmax(p->reach[row] / p->usual, 1.0));
    const double jump = fmax(cliff, 0.0) - p->wide;
    most = fmax(most, fmax(jump + fmax(p->changes[RUN] - p->cliffs, 0.0), -p->as_run[row]));
    for (int s = 0; s < STATES * STATES; s++)
        change = fmax(change, fmax(p->changes[s], p->begins[s % STATES]));
    return most + change + LOG_FACTORS[2] + 1e-6;
}

/* A step from one sounding to another, as far as it is the same for all hypotheses. */
typedef struct {
    int64_t from, row;
    int gap;
    double far, aside; /* between them, and what of it the usual steps do not explain */
    double spread;     /* variance of a step by the scatter */
    double jump;       /* log density of a jump of the bottom */
} Step;

static Step step_between(const Paths *p, int64_t from, int64_t row)
{
    const double far = away(p, from, row), back = (double)(row - from);
    const int gap = far > p->reach[row];
    const double cliff = gap ? 0.0 : p->cliffs + log(fmax(far / p->usual, 1.0));
    return (Step){from, row, gap, far, fmax(far - p->usual * back, 0.0),
                  p->scatter[row] * p->scatter[row] * back, cliff - p->wide};
}

/* Log density of a step between the depths by hypotheses i and j; and whether it is a jump. */
static double density(const Paths *p, const Step *s, int i, int j, int *jumps)
{
    const double past = p->r[s->from] / FACTORS[i], now = p->r[s->row] / FACTORS[j];
    const int same = i == j;
    double change = p->changes[STATES * i + j];
    if (s->gap) /* after a gap it may begin as the record does */
        change = fmax(change, p->begins[j]);
    const int lost = now < p->lost * past && past - now > s->far; /* steeper than 45 degrees */
    if (i != RUN && j == RUN && (lost || p->r[s->row] <= p->no_reading))
        change = p->no_readings;
    *jumps = 0;
    if ((i == RUN) != (j == RUN)) {
        const int alike = now < p->beside * past && past < p->beside * now;
        const double beside = alike ? p->near : 0.0;
        if (i == RUN)
            return beside - p->wide + change;
        return beside - p->as_run[s->row] + change;
    }
    const double width = (same ? p->grain : p->exact) * fmin(now, past) + p->least_step / FACTORS[j];
    const double rise = p->slope * (same ? s->far : s->aside);
    const double variance = width * width + (s->spread + rise * rise) / (FACTORS[j] * FACTORS[j]);
    const double smooth = log_normal(now - past, variance);
    if (!same && !s->gap)
        return smooth - LOG_FACTORS[j] + change;
    const double jump = i == RUN ? s->jump + (p->changes[RUN] - p->cliffs) : s->jump; /* another run */
    *jumps = same && !s->gap && jump > smooth;
    return log_add(smooth - LOG_FACTORS[j], jump) + change;
}

/* The best ways to the sounding ``row``; ``lead``: cost if all before it are nonsense. */
static void extend(const Paths *p, int64_t row, double lead)
{
    const int64_t first = row < p->skipped_most ? 0 : row - p->skipped_most;
    const double limit = most_likely(p, row);
    double best[STATES] = {INFINITY, INFINITY, INFINITY, INFINITY};
    int64_t *origin = p->origin + STATES * row;
    uint8_t *jumped = p->jumps + STATES * row;
    for (int j = 0; j < STATES; j++) {
        origin[j] = -1;
        jumped[j] = 0;
    }
    for (int64_t from = row - 1; from >= first; from--) {
        double before[STATES], least = INFINITY;
        for (int i = 0; i < STATES; i++) {
            before[i] = p->cost[STATES * from + i] + p->skipped[STATES * from + i];
            least = fmin(least, before[i]);
        }
        if (least - limit > fmax(fmax(best[0], best[1]), fmax(best[2], best[3])))
            continue;
        const Step step = step_between(p, from, row);
        for (int j = 0; j < STATES; j++) {
            if (least - limit > best[j])
                continue;
            double own = INFINITY;
            int which = 0, jumps = 0;
            for (int i = 0; i < STATES; i++) {
                int jump;
                if (before[i] - limit > fmin(own, best[j]))
                    continue;
                const double cost = before[i] - density(p, &step, i, j, &jump);
                if (cost < own) {
                    own = cost;
                    which = i;
                    jumps = jump;
                }
            }
            if (own <= best[j]) { /* the first of equal ones, as in NumPy */
                best[j] = own;
                origin[j] = STATES * from + which;
                jumped[j] = (uint8_t)jumps;
            }
        }
    }
    for (int j = 0; j < STATES && row < p->skipped_most; j++) { /* the record may begin here */
        double begin = lead - p->begins[j] + p->wide;
        if (j == RUN) {
            begin += p->as_run[row] - p->wide;
            if (p->r[row] <= p->no_reading)
                begin += p->begins[RUN] - p->no_readings;
        }
        if (begin <= best[j]) {
            best[j] = begin;
            origin[j] = -1;
            jumped[j] = 0;
        }
    }
    for (int j = 0; j < STATES; j++)
        p->cost[STATES * row + j] = best[j] - p->evidence[STATES * row + j];
}

/* Hypotheses of all soundings, -1 for nonsense; and where the bottom jumped. */
void hypotheses_find(const Paths *p, int64_t *found, uint8_t *jumped)
{
    const int64_t end = p->soundings;
    double lead = 0.0;
    for (int64_t row = 0; row < end; row++) {
        extend(p, row, lead);
        lead += p->as_nonsense[row] - (row ? p->repeated : p->nonsense);
        for (int64_t from = row < p->skipped_most ? 0 : row - p->skipped_most; from < row; from++)
            for (int s = 0; s < STATES; s++) {
                const double ratio = p->r[row] / (p->r[from] / FACTORS[s]);
                const int other = ratio > p->beside || ratio * p->beside < 1.0;
                p->skipped[STATES * from + s] += p->as_nonsense[row] - (other ? 0.0 : p->near) -
                                                 (row - from == 1 ? p->nonsense : p->repeated);
            }
        for (int s = 0; s < STATES; s++)
            p->skipped[STATES * row + s] = 0.0;
        found[row] = -1;
        jumped[row] = 0;
    }
    int64_t at = -1;
    double least = INFINITY;
    for (int64_t i = STATES * (end > p->skipped_most ? end - p->skipped_most : 0); i < STATES * end; i++)
        if (p->cost[i] + p->skipped[i] < least) {
            least = p->cost[i] + p->skipped[i];
            at = i;
        }
    for (; at >= 0; at = p->origin[at]) {
        found[at / STATES] = at % STATES;
        jumped[at / STATES] = p->jumps[at];
    }
}
