/* Which sites lie nearest to a query, and which of these surround it: a grid of buckets over
 * [-1, 1]^2, in plain C. What lies outside belongs to the cells of the border.
 *
 * It must be compiled without contraction to fused operations: distances that tie must tie here
 * as they do in NumPy. Nothing here allocates; every function may run on any thread.
 */

#include <stdint.h>

#define BUCKET 7     /* sites; as in __init__.py */
#define SLOTS 8      /* of a bucket: one more, so that its lines are whole and vectors are even */
#define LEVELS 4     /* as in index.py */
#define ROOM 4096     /* candidates that a query keeps at a time; more than BUCKET + MAX_POOL */
#define MAX_POOL 1000 /* as in options.py */
#define OCTANTS 8
#define BINS 128     /* of squared distances: about as many as are wanted of them */
#define WARMED 3     /* cells about a query that are asked for before its turn */
#define LINE 64      /* bytes of a cache line */
#define CACHED 4096  /* so many buckets are in a near cache anyway */
#define INLINE static inline __attribute__((always_inline))
#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GNUC__) && !defined(__clang__)
#define CLONED __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define CLONED
#endif

/* Two cache lines. The last slots of two arrays are no site's. */
typedef struct {
    float x[SLOTS], y[SLOTS]; /* places of sites */
    uint32_t number[SLOTS];   /* their random numbers times 2^32; last, how many there are */
    int32_t site[SLOTS];      /* last, the next bucket of the same cell, or -1 */
} Bucket;

typedef struct {
    int64_t cells;     /* a side */
    int64_t used;      /* buckets in use */
    int64_t looked_at; /* sites that queries have looked at */
    int32_t *head;     /* for each level, part and cell its first bucket, or -1 */
    Bucket *buckets;
} Grid;

typedef struct {
    double squared; /* distance */
    float x, y;
    int32_t site;
} Candidate;

typedef struct {
    double x, y;
    double start, share, scale; /* number * scale - part within `share` above `start` */
    int64_t part, cells;        /* cells a side at the query's level */
    const int32_t *head;        /* of the query's part */
    double beyond; /* only sites whose squared distance is larger count */
    int64_t count;
    double worst; /* no candidate further away is wanted */
    Candidate *found;
} Query;

INLINE int64_t cells_at(const Grid *grid, int64_t level)
{
    const int64_t cells = grid->cells >> level;
    return cells > 0 ? cells : 1;
}

/* Where the heads of a part of a level begin. */
INLINE int64_t heads_of(const Grid *grid, int64_t level, int64_t part)
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

static void add(Grid *grid, int32_t *head, const float *at, uint32_t number, int64_t site)
{
    Bucket *bucket = grid->buckets + *head;
    if (*head < 0 || bucket->number[BUCKET] == BUCKET) {
        const int32_t next = *head;
        *head = (int32_t)grid->used++;
        bucket = grid->buckets + *head;
        bucket->site[BUCKET] = next;
        bucket->number[BUCKET] = 0;
    }
    const uint32_t slot = bucket->number[BUCKET]++;
    bucket->x[slot] = at[0];
    bucket->y[slot] = at[1];
    bucket->number[slot] = number;
    bucket->site[slot] = (int32_t)site;
}

/* The list of a site at a level. */
INLINE int32_t *list_of(const Grid *grid, int64_t level, const float *at, uint32_t number)
{
    const int64_t cells = cells_at(grid, level);
    const int64_t part = (int64_t)((uint64_t)number << 2 * level >> 32);
    return grid->head + heads_of(grid, level, part) + cell_of(cells, at[1]) * cells +
           cell_of(cells, at[0]);
}

/* The sites up to `end` sorted by their lists at a level, into order. The lists must be empty. */
static void sort_sites(Grid *grid, int64_t level, const float *x, const uint32_t *number,
                       int64_t end, int64_t *order)
{
    int32_t *first = grid->head + heads_of(grid, level, 0);
    int32_t *last = grid->head + heads_of(grid, level + 1, 0), sum = 0;
    for (int64_t i = 0; i < end; i++)
        ++*list_of(grid, level, x + 2 * i, number[i]);
    for (int32_t *list = first; list < last; list++) {
        const int32_t size = *list + 1; /* they were empty at -1 */
        *list = sum;
        sum += size;
    }
    for (int64_t i = 0; i < end; i++)
        order[(*list_of(grid, level, x + 2 * i, number[i]))++] = i;
    for (int32_t *list = first; list < last; list++)
        *list = -1;
}

/* Take the sites from first to end: x [end, 2], number [end]. There is room. Where all are taken
 * anew, order [end] is scratch: what lies side by side on the ground does so in memory then. */
void search_add(Grid *grid, const float *x, const uint32_t *number, int64_t *order,
                int64_t first, int64_t end)
{
    for (int64_t level = 0; level < LEVELS; level++) {
        if (order)
            sort_sites(grid, level, x, number, end, order);
        for (int64_t i = first; i < end; i++) {
            const int64_t site = order ? order[i] : i;
            const float *at = x + 2 * site;
            add(grid, list_of(grid, level, at, number[site]), at, number[site], site);
        }
    }
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

/* Insert into a sorted list of n candidates. */
INLINE void insert(Candidate *list, int64_t n, Candidate c)
{
    while (n > 0 && before(&c, list + n - 1)) {
        list[n] = list[n - 1];
        n--;
    }
    list[n] = c;
}

/* The candidates no further than the square `limit`, at least `pool` of them or all there are, into
 * sorted; returns how many of them are the pool. */
INLINE int64_t sort(Query *query, double limit, int64_t pool, Candidate *sorted)
{
    /* By bins first: over an even ground squared distances are even too. */
    uint16_t ends[BINS + 1] = {0}, bin[ROOM];
    const double scale = limit > 0.0 ? BINS / limit : 0.0;
    for (int64_t i = 0; i < query->count; i++) {
        const double squared = query->found[i].squared, place = squared * scale;
        bin[i] = squared <= limit ? (uint16_t)(place < BINS - 1 ? place : BINS - 1) : BINS;
        ends[bin[i]]++;
    }
    int64_t wanted = 0, last = -1;
    for (int b = 0; b < BINS; b++) {
        const uint16_t size = ends[b];
        ends[b] = (uint16_t)wanted;
        wanted += size;
        if (last < 0 && (wanted >= pool || b == BINS - 1))
            last = b;
    }
    int64_t count = 0;
    for (int64_t i = 0; i < query->count; i++)
        if (bin[i] <= last) {
            sorted[ends[bin[i]]++] = query->found[i];
            count++;
        }
    if (count > 2 * pool) { /* a crowd at one distance */
        select_first(sorted, count, pool);
        count = pool;
    }
    for (int64_t i = 1; i < count; i++)
        insert(sorted, i, sorted[i]);
    return count < pool ? count : pool;
}

INLINE int64_t look(const Grid *grid, Query *query, int64_t cell, int64_t pool)
{
    int64_t looked = 0;
    const Bucket *bucket;
    for (int32_t next = query->head[cell]; next >= 0; next = bucket->site[BUCKET]) {
        bucket = grid->buckets + next;
        const int64_t filled = bucket->number[BUCKET];
        double dx[SLOTS], dy[SLOTS], squared[SLOTS], above[SLOTS];
        for (int j = 0; j < SLOTS; j++) {
            dx[j] = bucket->x[j] - query->x;
            dy[j] = bucket->y[j] - query->y;
            squared[j] = dx[j] * dx[j] + dy[j] * dy[j];
            above[j] = bucket->number[j] * query->scale - query->part - query->start;
            above[j] = above[j] < 0.0 ? above[j] + 1.0 : above[j];
        }
        looked += filled;
        if (query->count > ROOM - BUCKET)
            make_room(query, pool);
        for (int64_t j = 0; j < filled; j++) {
            Candidate *c = query->found + query->count;
            c->squared = squared[j];
            c->x = bucket->x[j];
            c->y = bucket->y[j];
            c->site = bucket->site[j];
            query->count += (above[j] < query->share) & (squared[j] <= query->worst) &
                            (squared[j] > query->beyond);
        }
    }
    return looked;
}

/* The square of the distance within which the cells up to `reach` away hold every site. */
INLINE double sure(const Query *query, int64_t column, int64_t row, int64_t reach)
{
    const double at[2] = {query->x, query->y};
    const int64_t cell[2] = {column, row};
    double least = 1.0 / 0.0;
    for (int axis = 0; axis < 2; axis++) {
        /* Beyond the border nothing is missed: its sites lie in the border cells. */
        const int64_t low = cell[axis] - reach, high = cell[axis] + reach + 1;
        const double below = at[axis] - (low * (2.0 / query->cells) - 1.0);
        const double over = high * (2.0 / query->cells) - 1.0 - at[axis];
        if (low > 0 && below < least)
            least = below;
        if (high < query->cells && over < least)
            least = over;
    }
    return least * least;
}

/* The `pool` nearest sites of a query, ring by ring of cells, sorted; returns how many. */
INLINE int64_t nearest(Grid *grid, Query *query, int64_t pool, Candidate *sorted)
{
    const int64_t cells = query->cells;
    const int64_t column = cell_of(cells, query->x), row = cell_of(cells, query->y);
    int64_t looked = 0;
    for (int64_t reach = 0; reach < cells; reach++) {
        for (int64_t r = row - reach; r <= row + reach; r++) {
            if (r < 0 || r >= cells)
                continue;
            /* Whole rows at both ends of the ring, two cells of those between. */
            const int64_t step = r == row - reach || r == row + reach || !reach ? 1 : 2 * reach;
            for (int64_t c = column - reach; c <= column + reach; c += step)
                if (c >= 0 && c < cells)
                    looked += look(grid, query, r * cells + c, pool);
        }
        if (query->count < pool)
            continue;
        const double limit = sure(query, column, row, reach);
        int64_t within = 0;
        for (int64_t i = 0; i < query->count; i++)
            within += query->found[i].squared <= limit;
        if (within >= pool && limit < 1e300) {
            grid->looked_at += looked;
            return sort(query, limit, pool, sorted);
        }
    }
    grid->looked_at += looked;
    double most = 0.0;
    for (int64_t i = 0; i < query->count; i++)
        most = query->found[i].squared > most ? query->found[i].squared : most;
    return sort(query, most, pool, sorted);
}

INLINE int octant_of(const Query *query, const Candidate *c)
{
    const double dx = c->x - query->x, dy = c->y - query->y;
    const double ax = dx < 0.0 ? -dx : dx, ay = dy < 0.0 ? -dy : dy;
    return 4 * (dx < 0.0) + 2 * (dy < 0.0) + (ay > ax);
}

/* Of the sorted candidates, up to k that lie apart: each further from all nearer ones that are
 * chosen than `apart` times its distance from the query. Those that are not chosen move to the
 * front of the list, in their order; returns how many are chosen. */
INLINE int64_t choose_apart(Candidate *sorted, int64_t count, double apart, int64_t k,
                            int64_t *chosen)
{
    uint8_t near[MAX_POOL] = {0};
    const double share = apart * apart;
    int64_t dealt = 0, left = 0;
    for (int64_t i = 0; i < count; i++) {
        const Candidate c = sorted[i];
        if (near[i] || dealt == k) {
            sorted[left++] = c;
            continue;
        }
        chosen[dealt++] = c.site;
        for (int64_t j = i + 1; j < count; j++) {
            const double dx = (double)sorted[j].x - c.x, dy = (double)sorted[j].y - c.y;
            near[j] |= dx * dx + dy * dy <= share * sorted[j].squared;
        }
    }
    return dealt;
}

/* k of the candidates: those that lie apart first, where that is asked for, then the others, dealt
 * round the octants: the nearest of each, then the second, ... and of the last round the nearest.
 * -1 where there are no more. */
INLINE void deal(const Query *query, Candidate *sorted, int64_t count, double apart, int64_t k,
                 int64_t *chosen)
{
    int16_t lists[OCTANTS][MAX_POOL], sizes[OCTANTS] = {0};
    int64_t dealt = 0;
    if (apart > 0.0) {
        dealt = choose_apart(sorted, count, apart, k, chosen);
        count -= dealt;
    }
    for (int64_t i = 0; i < count && dealt < k; i++) {
        const int octant = octant_of(query, sorted + i);
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
            chosen[dealt++] = sorted[round[i]].site;
    }
    while (dealt < k)
        chosen[dealt++] = -1;
}

/* Ask for what a query is going to look at: of many sites most of it is not in a near cache. */
INLINE void warm(const Grid *grid, const int32_t *head, int64_t cells, int64_t reach,
                 const double *x)
{
    const int64_t column = cell_of(cells, x[0]), row = cell_of(cells, x[1]);
    const int64_t low = column > reach ? column - reach : 0;
    const int64_t high = column + reach < cells ? column + reach : cells - 1;
    for (int64_t r = row > reach ? row - reach : 0; r <= row + reach && r < cells; r++)
        for (int64_t c = low; c <= high; c++) {
            const char *bucket = (const char *)(grid->buckets + head[r * cells + c]);
            if (head[r * cells + c] >= 0)
                for (uint64_t line = 0; line < sizeof(Bucket); line += LINE)
                    __builtin_prefetch(bucket + line, 0, 2);
        }
}

/* For each of n queries x [n, 2] k sites [n, k], chosen from its `pool` nearest sites of the share
 * (see Share in problem.py) whose squared distance is larger than beyond [n]; apart: see
 * choose_apart, 0 for nothing of the kind. */
CLONED void search_spread(Grid *grid, const double *x, const double *beyond, int64_t n, int64_t k,
                          int64_t pool, double start, double share, int64_t level, int64_t part,
                          double apart, int64_t *chosen)
{
    Candidate found[ROOM], sorted[ROOM];
    const int32_t *head = grid->head + heads_of(grid, level, part);
    const double scale = (double)((int64_t)1 << 2 * level) * 0x1p-32;
    const int64_t cells = cells_at(grid, level);
    for (int64_t i = 0; i < n; i++) {
        if (i + 1 < n && grid->used > CACHED)
            warm(grid, head, cells, pool > BUCKET ? WARMED : 1, x + 2 * (i + 1));
        Query query = {x[2 * i], x[2 * i + 1], start, share, scale, part, cells,
                       head, beyond ? beyond[i] : -1.0, 0, 1.0 / 0.0, found};
        const int64_t count = nearest(grid, &query, pool, sorted);
        deal(&query, sorted, count, apart, k, chosen + i * k);
    }
}
