/* Which sites lie nearest to a query, and which of these surround it: a grid of buckets over
 * [-1, 1]^2, in plain C. What lies outside belongs to the cells of the border.
 *
 * It must be compiled without contraction to fused operations: distances that tie must tie here
 * as they do in NumPy. Nothing here allocates; every function may run on any thread.
 */

#include "common.h"

#define BUCKET 7      /* sites; as in sites.py */
#define SLOTS 8       /* of a bucket: one more, so that its lines are whole and vectors are even */
#define LEVELS 4      /* as in sites.py */
#define ROOM 4096     /* candidates that a query keeps at a time; more than BUCKET + MAX_POOL */
#define MAX_POOL 1000 /* as in options.py */
#define OCTANTS 8
#define BINS 128      /* of squared distances: about as many as are wanted of them */
#define FARTHEST 6    /* cells about a query that are asked for before its turn, at most */
#define LINE 64       /* bytes of a cache line */
#define FAR 1e150     /* further than anything, even squared */
#define SLACK 1e-12   /* of the edges of cells: they are rounded */
#define CACHED 4096   /* so many buckets are in a near cache anyway */

/* Two cache lines. The last slots of two arrays are no site's. Zeros are an empty one. */
typedef struct {
    float x[SLOTS], y[SLOTS]; /* places of sites */
    uint32_t number[SLOTS];   /* their random numbers times 2^32; last, how many there are */
    int32_t site[SLOTS];      /* last, the next bucket of the same cell, or 0 */
} Bucket;

/* Every cell of every part of every level has its first bucket at a place of its own, a row of
 * cells side by side; what does not fit goes into buckets after all these. */
typedef struct {
    int64_t cells;     /* a side */
    int64_t used;      /* buckets in use, the first ones among them */
    int64_t looked_at; /* sites that queries have looked at */
    Bucket *buckets;
} Grid;

typedef struct {
    double squared; /* distance */
    int32_t site, slot; /* slot: its bucket times SLOTS, and its place in there */
} Candidate;

typedef struct {
    uint32_t first, mask, most; /* a number n belongs where (n - first) & mask <= most */
    int64_t cells;              /* a side at the share's level */
    double width;               /* of a cell */
    const Bucket *cell;         /* the first buckets of its part */
} Window;

typedef struct {
    double x, y;
    double least; /* only sites whose squared distance is larger count */
    double worst;  /* no candidate further away is wanted */
    int64_t count;
    Candidate *found;
} Query;

INLINE int64_t cells_at(const Grid *grid, int64_t level)
{
    const int64_t cells = grid->cells >> level;
    return cells > 0 ? cells : 1;
}

/* Where the first buckets of a part of a level begin. */
INLINE int64_t firsts_of(const Grid *grid, int64_t level, int64_t part)
{
    int64_t first = 0;
    for (int64_t l = 0; l < level; l++)
        first += ((int64_t)1 << 2 * l) * cells_at(grid, l) * cells_at(grid, l);
    return first + part * cells_at(grid, level) * cells_at(grid, level);
}

INLINE int64_t cell_of(int64_t cells, double x)
{
    const double place = (x + 1.0) * (0.5 * cells);
    return !(place > 0.0) ? 0 : place >= cells ? cells - 1 : (int64_t)place;
}

/* The cell's second bucket is the newest: only the first and that one may have room. */
static void add(Grid *grid, Bucket *first, const float *at, uint32_t number, int64_t site)
{
    Bucket *bucket = first;
    if (first->number[BUCKET] == BUCKET) {
        const int32_t second = first->site[BUCKET];
        bucket = grid->buckets + second;
        if (!second || bucket->number[BUCKET] == BUCKET) {
            first->site[BUCKET] = (int32_t)grid->used;
            bucket = grid->buckets + grid->used++;
            bucket->site[BUCKET] = second;
        }
    }
    const uint32_t slot = bucket->number[BUCKET]++;
    bucket->x[slot] = at[0];
    bucket->y[slot] = at[1];
    bucket->number[slot] = number;
    bucket->site[slot] = (int32_t)site;
}

/* Take the sites from first to end: x [end, 2], number [end]. There is room, and it is zero. */
void search_add(Grid *grid, const float *x, const uint32_t *number, int64_t first, int64_t end)
{
    for (int64_t level = 0; level < LEVELS; level++) {
        const int64_t cells = cells_at(grid, level);
        for (int64_t site = first; site < end; site++) {
            const float *at = x + 2 * site;
            const int64_t part = (int64_t)((uint64_t)number[site] << 2 * level >> 32);
            add(grid,
                grid->buckets + firsts_of(grid, level, part) + cell_of(cells, at[1]) * cells +
                    cell_of(cells, at[0]),
                at, number[site], site);
        }
    }
}

/* Whether the share (Subset in nngp/sites.py) has the site `step` numbers after its first, of `width`
 * numbers in its part, going round: as NumPy says it, rounding included. */
INLINE int in_share(double start, double share, int64_t first, int64_t step, int64_t width)
{
    const int64_t number = (first + step) % width;
    const double above = (double)number / width - start;
    return (above < 0.0 ? above + 1.0 : above) < share;
}

/* The numbers of a share; how many there are. */
static int64_t open_window(const Grid *grid, double start, double share, int64_t level,
                           int64_t part, Window *window)
{
    const int64_t width = (int64_t)1 << (32 - 2 * level);
    int64_t first = (int64_t)(start * width), count;
    first += (double)first < start * width;
    count = share < 1.0 ? (int64_t)(share * width) : width;
    while (count < width && in_share(start, share, first, count, width))
        count++;
    while (count > 0 && !in_share(start, share, first, count - 1, width))
        count--;
    window->first = (uint32_t)(part * width + first);
    window->mask = (uint32_t)(width - 1);
    window->most = (uint32_t)(count - 1);
    window->cells = cells_at(grid, level);
    window->width = 2.0 / window->cells;
    window->cell = grid->buckets + firsts_of(grid, level, part);
    return count;
}

INLINE int before(const Candidate *one, const Candidate *other)
{
    return one->squared < other->squared ||
           (one->squared == other->squared && one->site < other->site);
}

/* The `count` first of n candidates to the front, in any order (quickselect). */
static void select_first(Candidate *c, int64_t n, int64_t count)
{
    int64_t low = 0, high = n - 1;
    while (low < high) {
        const Candidate pivot = c[low + (high - low) / 2];
        int64_t i = low, j = high;
        while (i <= j) {
            while (before(c + i, &pivot))
                i++;
            while (before(&pivot, c + j))
                j--;
            if (i <= j) {
                const Candidate swapped = c[i];
                c[i++] = c[j];
                c[j--] = swapped;
            }
        }
        if (count - 1 <= j)
            high = j;
        else if (count - 1 >= i)
            low = i;
        else
            return;
    }
}

/* Make room: only the `pool` nearest so far are kept, and none further away is taken. */
static void make_room(Query *query, int64_t pool)
{
    select_first(query->found, query->count, pool);
    query->count = pool;
    double worst = 0.0;
    for (int64_t i = 0; i < pool; i++)
        worst = query->found[i].squared > worst ? query->found[i].squared : worst;
    query->worst = worst;
}

/* The sites of a cell; returns how many it has. */
INLINE int64_t look(const Grid *grid, const Window *window, Query *query, int64_t cell,
                    int64_t pool)
{
    int64_t looked = 0;
    const Bucket *bucket = window->cell + cell;
    do {
        const uint32_t filled = bucket->number[BUCKET];
        const int32_t next = bucket->site[BUCKET];
        const int32_t slot = (int32_t)((bucket - grid->buckets) * SLOTS);
        __builtin_prefetch((const char *)(grid->buckets + next));
        __builtin_prefetch((const char *)(grid->buckets + next) + LINE);
        double squared[SLOTS];
        int64_t wanted[SLOTS];
        for (int j = 0; j < SLOTS; j++) {
            const double dx = bucket->x[j] - query->x, dy = bucket->y[j] - query->y;
            squared[j] = dx * dx + dy * dy;
        }
        for (int j = 0; j < SLOTS; j++)
            wanted[j] = (((bucket->number[j] - window->first) & window->mask) <= window->most) &
                        ((uint32_t)j < filled);
        for (int j = 0; j < SLOTS; j++)
            wanted[j] &= (squared[j] <= query->worst) & (squared[j] > query->least);
        if (query->count > ROOM - BUCKET)
            make_room(query, pool);
        Candidate *found = query->found + query->count;
        for (int j = 0; j < BUCKET; j++) {
            found->squared = squared[j];
            found->site = bucket->site[j];
            found->slot = slot + j;
            found += wanted[j];
        }
        query->count = found - query->found;
        looked += filled;
        bucket = grid->buckets + next;
    } while (bucket != grid->buckets);
    return looked;
}

/* The square of the distance from a query to a cell along one axis. A cell at the border has what
 * lies beyond it, too. */
INLINE double across(const Window *window, int64_t cell, double x)
{
    const double below = cell * window->width - 1.0 - x, above = -below - window->width;
    const double low = cell ? below : -FAR, high = cell + 1 < window->cells ? above : -FAR;
    const double outside = (low > high ? low : high) - SLACK;
    return outside > 0.0 ? outside * outside : 0.0;
}

/* What lies in the ring of cells `reach` away, but for cells in which nothing is wanted; returns
 * how many sites were looked at. */
INLINE int64_t look_round(const Grid *grid, const Window *window, Query *query, int64_t reach,
                          int64_t pool)
{
    const int64_t cells = window->cells;
    const int64_t column = cell_of(cells, query->x), row = cell_of(cells, query->y);
    const int choosy = query->worst < FAR;
    int64_t looked = 0;
    for (int64_t r = row > reach ? row - reach : 0; r <= row + reach && r < cells; r++) {
        const double up = choosy ? across(window, r, query->y) : 0.0;
        /* Whole rows at both ends of the ring, two cells of those between. */
        const int64_t step = r == row - reach || r == row + reach || !reach ? 1 : 2 * reach;
        for (int64_t c = column - reach; c <= column + reach && c < cells; c += step) {
            if (c < 0 || (choosy && across(window, c, query->x) + up > query->worst))
                continue;
            looked += look(grid, window, query, r * cells + c, pool);
        }
    }
    return looked;
}

/* The square of the distance within which the cells up to `reach` away hold every site. */
INLINE double sure(const Window *window, const Query *query, int64_t reach)
{
    const double at[2] = {query->x, query->y};
    double least = FAR;
    for (int axis = 0; axis < 2; axis++) {
        /* Beyond the border nothing is missed: its sites lie in the border cells. */
        const int64_t cell = cell_of(window->cells, at[axis]);
        const int64_t low = cell - reach, high = cell + reach + 1;
        const double below = at[axis] - (low * window->width - 1.0);
        const double over = high * window->width - 1.0 - at[axis];
        if (low > 0 && below < least)
            least = below;
        if (high < window->cells && over < least)
            least = over;
    }
    least -= SLACK;
    return least > 0.0 ? least * least : -1.0;
}

INLINE int64_t within(const Query *query, double limit)
{
    int64_t count = 0;
    for (int64_t i = 0; i < query->count; i++)
        count += query->found[i].squared <= limit;
    return count;
}

/* Which bin of so many from `low` on; those beyond, into the last. */
INLINE int bin_of(double squared, double low, double scale)
{
    const double place = (squared - low) * scale;
    return place < BINS ? (int)place : BINS;
}

/* Insert into a sorted list of n candidates. */
INLINE void insert(Candidate *list, int64_t n, Candidate c)
{
    while (n > 0 && before(&c, list + n - 1)) {
        list[n] = list[n - 1];
        n--;
    }
    list[n] = c;
}

/* The nearest `pool` of the candidates no further than the square `limit`, or all there are, into
 * sorted; returns how many. None is nearer than the square `low`. Of the others those beyond the
 * limit are still found then. */
INLINE int64_t sort(Query *query, double low, double limit, int64_t pool, Candidate *sorted)
{
    /* By bins first: over an even ground squared distances are even too. */
    uint16_t ends[BINS + 2] = {0};
    uint8_t bin[ROOM];
    double most = limit;
    if (limit >= FAR) {
        most = low;
        for (int64_t i = 0; i < query->count; i++)
            most = query->found[i].squared > most ? query->found[i].squared : most;
    }
    const double scale = most > low ? BINS / (most - low) : 0.0;
    for (int64_t i = 0; i < query->count; i++) {
        const double squared = query->found[i].squared;
        const int b = bin_of(squared, low, scale);
        bin[i] = (uint8_t)(squared > limit ? BINS + 1 : b);
        ends[bin[i]]++;
    }
    int64_t wanted = 0, last = -1;
    for (int b = 0; b <= BINS; b++) {
        const uint16_t size = ends[b];
        ends[b] = (uint16_t)wanted;
        wanted += size;
        if (last < 0 && (wanted >= pool || b == BINS))
            last = b;
    }
    int64_t count = 0, kept = 0;
    for (int64_t i = 0; i < query->count; i++) {
        const Candidate c = query->found[i];
        if (bin[i] <= last) {
            sorted[ends[bin[i]]++] = c;
            count++;
        }
    }
    for (int64_t i = 0; i < query->count; i++)
        if (bin[i] > BINS)
            query->found[kept++] = query->found[i];
    query->count = kept;
    if (count > 2 * pool) { /* a crowd at one distance */
        select_first(sorted, count, pool);
        count = pool;
    }
    for (int64_t i = 1; i < count; i++)
        insert(sorted, i, sorted[i]);
    return count < pool ? count : pool;
}

INLINE int everywhere(const Window *window, const Query *query, int64_t reach)
{
    const int64_t column = cell_of(window->cells, query->x);
    const int64_t row = cell_of(window->cells, query->y);
    const int64_t last = window->cells - 1 - reach;
    return column <= reach && row <= reach && column >= last && row >= last;
}

/* The place of a candidate. */
INLINE const float *place_of(const Grid *grid, const Candidate *c)
{
    return grid->buckets[c->slot / SLOTS].x + c->slot % SLOTS;
}

/* Places in blocks of a vector's length; where there is none, so far away that nothing is near. */
typedef struct {
    double x[MAX_POOL + SLOTS], y[MAX_POOL + SLOTS];
    int64_t count;
} Chosen;

INLINE void take(Chosen *chosen, double x, double y)
{
    if (chosen->count % SLOTS == 0)
        for (int j = 0; j < SLOTS; j++)
            chosen->x[chosen->count + j] = chosen->y[chosen->count + j] = 1e200;
    chosen->x[chosen->count] = x;
    chosen->y[chosen->count++] = y;
}

/* Whether a chosen one lies no further away than the square `limit`; the newest first. */
INLINE int has_near(const Chosen *chosen, double x, double y, double limit)
{
    for (int64_t block = (chosen->count - 1) / SLOTS * SLOTS; chosen->count && block >= 0;
         block -= SLOTS) {
        int64_t near = 0;
        for (int j = 0; j < SLOTS; j++) {
            const double dx = x - chosen->x[block + j], dy = y - chosen->y[block + j];
            near |= dx * dx + dy * dy <= limit;
        }
        if (near)
            return 1;
    }
    return 0;
}

/* Of the `pool` nearest sites, from the nearest on, up to k that lie apart: each further from all
 * that are chosen before than `apart` times its distance from the query; none if that is 0. The
 * others, until there are k, into left. It looks no further than to the last that is chosen, ring by
 * ring of cells. Returns how many are. */
INLINE int64_t choose_apart(Grid *grid, const Window *window, Query *query, int64_t pool,
                            double apart, int64_t k, Candidate *sorted, Candidate *left,
                            int64_t *lefts, int64_t *sites, int64_t *reached)
{
    Chosen chosen;
    chosen.count = 0;
    const double share = apart * apart;
    int64_t looked = 0, seen = 0, reach = 0;
    double low = 0.0;
    for (;; reach++) {
        looked += look_round(grid, window, query, reach, pool - seen);
        const int all = everywhere(window, query, reach);
        const double limit = sure(window, query, reach);
        if (!(apart > 0.0) && !all && within(query, limit) < pool)
            continue; /* sorted at once */
        const int64_t count = sort(query, low, limit, pool - seen, sorted);
        low = limit;
        seen += count;
        for (int64_t i = 0; i < count && chosen.count < k; i++) {
            const float *at = place_of(grid, sorted + i);
            if (!(apart > 0.0) || has_near(&chosen, at[0], at[SLOTS], share * sorted[i].squared)) {
                left[(*lefts)++] = sorted[i];
            } else {
                sites[chosen.count] = sorted[i].site;
                take(&chosen, at[0], at[SLOTS]);
            }
        }
        if (chosen.count == k || seen == pool || all)
            break;
    }
    grid->looked_at += looked;
    *reached = reach;
    return chosen.count;
}

INLINE int octant_of(const Query *query, const float *at)
{
    const double dx = at[0] - query->x, dy = at[SLOTS] - query->y;
    const double ax = dx < 0.0 ? -dx : dx, ay = dy < 0.0 ? -dy : dy;
    return 4 * (dx < 0.0) + 2 * (dy < 0.0) + (ay > ax);
}

/* After those that are dealt, others up to k of the sorted candidates, dealt round the octants: the
 * nearest of each, then the second, ... and of the last round the nearest. -1 where there are no
 * more. */
INLINE void deal(const Grid *grid, const Query *query, const Candidate *sorted, int64_t count,
                 int64_t dealt, int64_t k, int64_t *sites)
{
    int16_t lists[OCTANTS][MAX_POOL], sizes[OCTANTS] = {0};
    for (int64_t i = 0; i < count && dealt < k; i++) {
        const int octant = octant_of(query, place_of(grid, sorted + i));
        lists[octant][sizes[octant]++] = (int16_t)i;
    }
    for (int64_t turn = 0; dealt < k; turn++) {
        int16_t round[OCTANTS];
        int64_t n = 0;
        for (int octant = 0; octant < OCTANTS; octant++) {
            if (turn >= sizes[octant])
                continue;
            const int16_t place = lists[octant][turn];
            int64_t i = n++;
            for (; i > 0 && round[i - 1] > place; i--)
                round[i] = round[i - 1];
            round[i] = place;
        }
        if (!n)
            break;
        for (int64_t i = 0; i < n && dealt < k; i++)
            sites[dealt++] = sorted[round[i]].site;
    }
    while (dealt < k)
        sites[dealt++] = -1;
}

/* Ask for what a query is going to look at: of many sites most of it is not in a near cache. */
INLINE void warm(const Window *window, int64_t reach, const double *x)
{
    const int64_t cells = window->cells;
    const int64_t column = cell_of(cells, x[0]), row = cell_of(cells, x[1]);
    const int64_t low = column > reach ? column - reach : 0;
    const int64_t high = column + reach < cells ? column + reach : cells - 1;
    for (int64_t r = row > reach ? row - reach : 0; r <= row + reach && r < cells; r++) {
        const char *end = (const char *)(window->cell + r * cells + high + 1);
        for (const char *at = (const char *)(window->cell + r * cells + low); at < end; at += LINE)
            __builtin_prefetch(at);
    }
}

/* For each of n queries x [n, 2] k sites [n, k], chosen from its `pool` nearest sites of the share
 * (see Subset in nngp/sites.py), with `elsewhere` none at x itself; apart: see choose_apart, 0 for
 * nothing of the kind. */
void search_spread(Grid *grid, const double *x, int64_t elsewhere, int64_t n, int64_t k,
                   int64_t pool, double start, double share, int64_t level, int64_t part,
                   double apart, int64_t *chosen)
{
    Candidate found[ROOM], sorted[ROOM], left[MAX_POOL];
    pool = pool < MAX_POOL ? pool : MAX_POOL;
    Window window;
    const int64_t there = open_window(grid, start, share, level, part, &window);
    int64_t reached = 1;
    for (int64_t i = 0; i < n; i++) {
        if (i + 1 < n && grid->used > CACHED)
            warm(&window, reached < FARTHEST ? reached : FARTHEST, x + 2 * (i + 1));
        Query query = {x[2 * i], x[2 * i + 1], elsewhere ? 0.0 : -1.0, there ? FAR : -2.0, 0, found};
        int64_t count = 0, *sites = chosen + i * k;
        const int64_t dealt = choose_apart(grid, &window, &query, pool, apart, k, sorted, left,
                                           &count, sites, &reached);
        deal(grid, &query, left, count, dealt, k, sites);
    }
}

/* A raster of land and water; see core/geometry.py. */
typedef struct {
    int64_t rows, columns;
    double side;                       /* of a cell */
    const double *x, *y;               /* centres */
    const double *to_land;             /* distance to the nearest land, 0 on land */
    const int32_t *nearest_row, *nearest_column; /* of the nearest water */
} Raster;

INLINE int64_t on_axis(double at, double first, double side, int64_t count)
{
    const double place = (at - first) / side + 0.5;
    return place > 0.0 ? (place < count - 1.0 ? (int64_t)place : count - 1) : 0;
}

INLINE int64_t raster_cell(const Raster *r, double x, double y)
{
    return on_axis(y, r->y[0], r->side, r->rows) * r->columns
           + on_axis(x, r->x[0], r->side, r->columns);
}

/* Whether land lies on the line from middle - half to middle + half. */
static int crosses_land(const Raster *r, double x, double y, double half_x, double half_y)
{
    const double free = r->to_land[raster_cell(r, x, y)];
    if (free == 0.0)
        return 1;
    const double length = sqrt(half_x * half_x + half_y * half_y);
    if (free - 2 * r->side >= length || length <= r->side / 4)
        return 0;
    half_x /= 2;
    half_y /= 2;
    return crosses_land(r, x - half_x, y - half_y, half_x, half_y)
           || crosses_land(r, x + half_x, y + half_y, half_x, half_y);
}

INLINE void to_water(const Raster *r, double *x, double *y)
{
    const int64_t cell = raster_cell(r, *x, *y);
    if (r->to_land[cell] == 0.0) {
        *x = r->x[r->nearest_column[cell]];
        *y = r->y[r->nearest_row[cell]];
    }
}

/* Of each of n queries x [n, 2], which of the sites near it [n, k] (-1 for none) land hides, as
 * Land.between says; step: numbers from a site to the next. */
void search_hidden(const Raster *r, const double *x, const double *sites, int64_t step,
                   const int64_t *near, int64_t n, int64_t k, uint8_t *hidden)
{
    for (int64_t i = 0; i < n; i++) {
        const double free = r->to_land[raster_cell(r, x[2 * i], x[2 * i + 1])] - 2 * r->side;
        const double clear = free > 0.0 ? free : 0.0;
        for (int64_t j = i * k; j < (i + 1) * k; j++) {
            hidden[j] = 0;
            if (near[j] < 0)
                continue;
            double ax = x[2 * i], ay = x[2 * i + 1];
            double bx = sites[step * near[j]], by = sites[step * near[j] + 1];
            const double dx = bx - ax, dy = by - ay;
            if (dx * dx + dy * dy <= clear * clear)
                continue;
            to_water(r, &ax, &ay);
            to_water(r, &bx, &by);
            hidden[j] = crosses_land(r, (ax + bx) / 2, (ay + by) / 2, (bx - ax) / 2, (by - ay) / 2);
        }
    }
}
