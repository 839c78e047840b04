/* The products of a linear layer in training, fused with operations that would be separate passes over a large table.

       y = f(x Wᵀ + b)        dx = (dy W) [h > 0]        dW += dyᵀ x,   db += Σ_rows dy

   All three are C = A B. B is laid out in panels of COLUMNS numbers for each of its rows, A is read by ROWS of its rows,
   and ROWS · COLUMNS sums are kept in registers (Goto and van de Geijn 2008, "Anatomy of high-performance matrix
   multiplication", sections 4 and 5). Blocks are of such sizes that what is read again and again stays in the second
   cache. Where A is a transpose (dyᵀ), ROWS of its rows are copied side by side, and summed for db on the way.

   Threads share out the columns of C (the rows, for dW) and have copies of their own: nobody waits for anybody. */

#include "turned.h"

#define COLUMNS (2 * LANES)
#if LANES == 16
#define ROWS 12 /* of 32 registers, 24 are sums */
#else
#define ROWS 6 /* 12 of 16 */
#endif
#define BLOCK 65536 /* numbers, a quarter of a megabyte: half of them of A at a time */
#define WIDEST 256 /* columns of B at a time, where C is as wide as B */
#define SUMMED 384 /* rows of A and B at a time, where C = Aᵀ B */
#define DEEPEST 1024 /* products that are summed before C is updated */

enum { ADD = 1, RELU = 2, WHERE = 4 };

static inline long least(long a, long b) { return a < b ? a : b; }
static inline long whole(long columns) { return (columns + COLUMNS - 1) / COLUMNS * COLUMNS; }

/* Buffer that a thread keeps between calls, so that its pages stay mapped; NULL without memory. */
static float *room(long size) {
    static _Thread_local float *kept;
    static _Thread_local long kept_size;
    if (size > kept_size) {
        free(kept);
        kept_size = size + size / 4;
        if (posix_memalign((void **)&kept, 64, sizeof(float) * (size_t)kept_size)) kept = 0, kept_size = 0;
    }
    return kept;
}

/* Epilogue of a tile of C: add the old value, then a bias; relu; 0 where `where` is at most 0. */
struct finish {
    const float *bias, *where;
    int how;
};

static inline __attribute__((always_inline)) vec finished(vec v, const float *c, const float *bias, const float *where, int how) {
    if (how & ADD) v += load(c);
    if (bias) v += load(bias);
    if (how & RELU) v = larger((vec){0}, v); /* in this order NaN stays NaN */
    if (how & WHERE) v = (vec)((ivec)v & ~(load(where) <= 0.0f));
    return v;
}

/* One tile: A(r, k) = a[r * row + k * step], a panel of B, up to R · COLUMNS numbers of C. */
static inline __attribute__((always_inline)) void tile(int R, const float *a, long row, long step, long depth,
                                                       const float *panel, float *c, long stride, long columns,
                                                       struct finish f) {
    vec s[ROWS][2];
    _Pragma("GCC unroll 16") for (int r = 0; r < R; r++) s[r][0] = s[r][1] = (vec){0};
    for (long k = 0; k < depth; k++, panel += COLUMNS, a += step) {
        vec left = load(panel), right = load(panel + LANES);
        _Pragma("GCC unroll 16") for (int r = 0; r < R; r++) {
            float one = a[r * row];
            s[r][0] += one * left;
            s[r][1] += one * right;
        }
    }
    if (columns == COLUMNS) {
        _Pragma("GCC unroll 16") for (int r = 0; r < R; r++, c += stride, f.where += stride) {
            store(c, finished(s[r][0], c, f.bias, f.where, f.how));
            store(c + LANES, finished(s[r][1], c + LANES, f.bias ? f.bias + LANES : 0, f.where + LANES, f.how));
        }
        return;
    }
    float rest[ROWS][COLUMNS];
    _Pragma("GCC unroll 16") for (int r = 0; r < R; r++) store(rest[r], s[r][0]), store(rest[r] + LANES, s[r][1]);
    for (int r = 0; r < R; r++, c += stride, f.where += stride)
        for (long j = 0; j < columns; j++) {
            float value = rest[r][j] + (f.how & ADD ? c[j] : 0.0f) + (f.bias ? f.bias[j] : 0.0f);
            if (f.how & RELU) value = value < 0.0f ? 0.0f : value;
            if (f.how & WHERE) value = f.where[j] <= 0.0f ? 0.0f : value;
            c[j] = value;
        }
}

/* A tile of as many rows as there are: how many were done. Once for A as it lies, once as `beside` has copied it. */
#define TILE(R) \
    if (rows >= R) return tile(R, a, row, step, depth, panel, c, stride, columns, f), R;
#if ROWS == 12
#define TILES TILE(12) TILE(6) TILE(4) TILE(3) TILE(2) TILE(1)
#else
#define TILES TILE(6) TILE(4) TILE(3) TILE(2) TILE(1)
#endif

static __attribute__((noinline)) long tile_of_rows(const float *a, long row, long rows, long depth, const float *panel,
                                                   float *c, long stride, long columns, struct finish f) {
    const long step = 1;
    TILES
    return DONE;
}

static __attribute__((noinline)) long tile_of_columns(const float *a, long rows, long depth, const float *panel,
                                                      float *c, long stride, long columns, struct finish f) {
    const long row = 1, step = ROWS;
    TILES
    return DONE;
}

/* Panels of B(k, j) = b[k * row + j * column]; one of the strides is 1. Padded with zero columns. */
static void panels_of(const float *b, long row, long column, long depth, long columns, float *to) {
    long whole = column == 1 ? columns / COLUMNS * COLUMNS : 0;
    for (long k = 0; k < depth; k++) { /* row by row, as stored */
        __builtin_prefetch(b + (k + 4) * row);
        for (long j = 0; j < whole; j += COLUMNS) {
            store(to + j * depth + k * COLUMNS, load(b + k * row + j));
            store(to + j * depth + k * COLUMNS + LANES, load(b + k * row + j + LANES));
        }
    }
    for (long first = whole; first < columns; first += COLUMNS) {
        long width = least(COLUMNS, columns - first);
        float *panel = to + first * depth;
        if (width < COLUMNS) memset(panel, 0, sizeof(float) * (size_t)(COLUMNS * depth));
        if (row == 1) turned(b + first * column, column, width, depth, panel, COLUMNS);
        else
            for (long k = 0; k < depth; k++) memcpy(panel + k * COLUMNS, b + k * row + first, sizeof(float) * (size_t)width);
    }
}

/* What is needed soon is asked for while the sums of a tile keep the processor busy: part `part` of `parts` of a table of
   rows × width, into the second cache; and the tile of C itself, which will be written. */
static void fetch(const float *x, long stride, long rows, long width, long part, long parts) {
    for (long k = rows * part / parts; k < rows * (part + 1) / parts; k++)
        for (long i = 0; i < width; i += 16) __builtin_prefetch(x + k * stride + i, 0, 2);
}

static void fetch_tile(const float *c, long stride, long rows) {
    for (long r = 0; r < least(rows, ROWS); r++, c += stride) {
        __builtin_prefetch(c, 1, 3);
        __builtin_prefetch(c + COLUMNS - 1, 1, 3);
    }
}

/* STRIPS times ROWS columns of x, those of a strip side by side: to[k * ROWS + r] = x[k * stride + r]. Their sums are
   added to `sums`. Several strips at once, since a row of x is far from the next. */
#define STRIPS 4

static void beside(const float *x, long stride, long depth, long rows, float *to, long strip, float *sums) {
    if (rows == STRIPS * ROWS) {
        vec total[STRIPS * ROWS / LANES] = {0};
        for (long k = 0; k < depth; k++, x += stride, to += ROWS) {
            for (int i = 0; i < STRIPS * ROWS / LANES; i++) total[i] += load(x + i * LANES);
            for (int s = 0; s < STRIPS; s++) memcpy(to + s * strip, x + s * ROWS, ROWS * sizeof(float));
        }
        if (sums)
            for (int i = 0; i < STRIPS * ROWS / LANES; i++) store(sums + i * LANES, load(sums + i * LANES) + total[i]);
        return;
    }
    float total[STRIPS * ROWS] = {0}; /* summed as above: how threads share the work changes no bit */
    for (long k = 0; k < depth; k++, x += stride, to += ROWS)
        for (long r = 0; r < rows; r++) to[r / ROWS * strip + r % ROWS] = x[r], total[r] += x[r];
    if (sums)
        for (long r = 0; r < rows; r++) sums[r] += total[r];
}

struct product {
    const float *a, *b, *panels;
    float *c, *sums;
    long rows, depth, columns, a_row, b_row, b_column, c_row;
    struct finish finish;
};

/* C = A B for A as stored. */
static int product_part(void *task) {
    const struct product *p = task;
    long first, last, deep = least(p->depth, DEEPEST), most = BLOCK / 2 / deep / ROWS * ROWS;
    share(p->columns, COLUMNS, &first, &last);
    if (first >= last) return DONE;
    long width = last - first, padded = whole(width);
    int crowded = p->a_row % 1024 == 0; /* rows would map to the same sets of the first cache */
    float *own = room(padded * deep + (most + ROWS) * (deep + LANES)), *copy = own + padded * deep;
    if (!own) return NO_MEMORY;
    for (long k = 0; k < p->depth; k += deep) {
        long depth = least(deep, p->depth - k);
        const float *panels = p->panels ? p->panels + k * whole(p->columns) + first * depth : own;
        if (!p->panels) panels_of(p->b + k * p->b_row + first * p->b_column, p->b_row, p->b_column, depth, width, own);
        struct finish f = k + depth == p->depth ? p->finish : (struct finish){0, 0, p->finish.how & ADD};
        if (k) f.how |= ADD;
        for (long row = 0; row < p->rows; row += most) {
            long rows = least(most, p->rows - row), a_row = p->a_row;
            const float *a = p->a + row * a_row + k;
            if (crowded) {
                for (long r = 0; r < rows; r++) memcpy(copy + r * (deep + LANES), a + r * a_row, sizeof(float) * (size_t)depth);
                a = copy, a_row = deep + LANES;
            }
            const float *next = p->a + (row + rows) * p->a_row + k;
            long after = least(most, p->rows - row - rows), done = 0, tiles = padded / COLUMNS * ((rows + ROWS - 1) / ROWS);
            for (long column = 0; column < width; column += COLUMNS)
                for (long r = 0; r < rows;) {
                    float *c = p->c + (row + r) * p->c_row + first + column;
                    struct finish here = f;
                    if (done < tiles) fetch(next, p->a_row, after, depth, done, tiles);
                    done++;
                    fetch_tile(c, p->c_row, rows - r);
                    if (f.bias) here.bias = f.bias + first + column;
                    if (f.where) here.where = f.where + (row + r) * p->c_row + first + column;
                    r += tile_of_rows(a + r * a_row, a_row, rows - r, depth, panels + column * depth, c, p->c_row,
                                      least(COLUMNS, width - column), here);
                }
        }
    }
    return DONE;
}

/* C = Aᵀ B, or C += Aᵀ B; sums are those of A's columns. */
static int turned_part(void *task) {
    const struct product *p = task;
    long first, last, wide = least(p->columns, WIDEST), deep = least(p->depth, SUMMED), strip = ROWS * deep;
    share(p->rows, ROWS, &first, &last);
    if (first >= last) return DONE;
    float *panels = room((WIDEST + STRIPS * ROWS) * deep), *strips = panels + WIDEST * deep;
    if (!panels) return NO_MEMORY;
    for (long k = 0; k < p->depth; k += deep)
        for (long begin = 0; begin < p->columns; begin += wide) {
            long depth = least(deep, p->depth - k), width = least(wide, p->columns - begin);
            struct finish f = {0, 0, k ? ADD : p->finish.how};
            panels_of(p->b + k * p->b_row + begin, p->b_row, 1, depth, width, panels);
            for (long row = first; row < last; row += STRIPS * ROWS) {
                long rows = least(STRIPS * ROWS, last - row), tiles = STRIPS * ((width + COLUMNS - 1) / COLUMNS), done = 0;
                const float *next = p->a + k * p->a_row + row + rows;
                beside(p->a + k * p->a_row + row, p->a_row, depth, rows, strips, strip, p->sums && !begin ? p->sums + row : 0);
                for (long column = 0; column < width; column += COLUMNS)
                    for (long r = 0; r < rows;) {
                        float *c = p->c + (row + r) * p->c_row + begin + column;
                        if (done < tiles) fetch(next, p->a_row, depth, STRIPS * ROWS, done, tiles);
                        done++;
                        fetch_tile(c, p->c_row, rows - r);
                        r += tile_of_columns(strips + r / ROWS * strip + r % ROWS, least(ROWS - r % ROWS, rows - r), depth,
                                             panels + column * depth, c, p->c_row, least(COLUMNS, width - column), f);
                    }
            }
        }
    return DONE;
}

long training_lanes(void) { return LANES; }

/* b(k, j) = b[k * b_row + j * b_column] as panels, for several products. They take whole(columns) * depth numbers. */
int training_pack(const float *b, long b_row, long b_column, long depth, long columns, float *panels) {
    for (long k = 0; k < depth; k += DEEPEST)
        panels_of(b + k * b_row, b_row, b_column, least(DEEPEST, depth - k), columns, panels + k * whole(columns));
    return DONE;
}

/* c = a b, finished: a[rows × depth] with rows a_row apart; b as it lies, or, if b_row is 0, as panels. */
int training_product(const float *a, long a_row, long rows, long depth, const float *b, long b_row, long b_column,
                      long columns, const float *bias, const float *where, int how, float *c, long c_row, long threads) {
    struct product task = {.a = a, .b = b, .panels = b_row ? 0 : b, .c = c, .rows = rows, .depth = depth, .columns = columns,
                           .a_row = a_row, .b_row = b_row, .b_column = b_column, .c_row = c_row, .finish = {bias, where, how}};
    return in_parallel(product_part, &task, threads);
}

/* c = aᵀ b, or added to c: a[depth × rows], b[depth × columns]; the sums of a's columns are added to sums. */
int training_turned(const float *a, long a_row, long rows, long depth, const float *b, long b_row, long columns,
                     float *sums, int how, float *c, long c_row, long threads) {
    struct product task = {.a = a, .b = b, .c = c, .sums = sums, .rows = rows, .depth = depth, .columns = columns,
                           .a_row = a_row, .b_row = b_row, .c_row = c_row, .finish = {0, 0, how}};
    return in_parallel(turned_part, &task, threads);
}
