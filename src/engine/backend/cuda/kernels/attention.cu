// Attention and the caches that it reads.
//
// A cache is pages of PAGE slots, each for all layers: [layer][key, value][slot][kv head][dim], in F16 or F32. What the
// rows of a call are, and where the pages of their sessions lie, comes in two tables:
//
//   rows:  ROW numbers a row (see the names below)
//   pages: addresses, those of a session from `row[FIRST_PAGE]` on

#define PAGE 64
#define ROW 6
#define POSITION 0
#define SLOT 1
#define START 2
#define END 3
#define FIRST_PAGE 4
#define VISIBLE 5

// Keys of one piece of a row's attention.
#define SPLIT 256
// Query heads that share a pass over keys and values.
#define GROUP 8
#define ATTEND_THREADS 256

// Index of an element's head in a page: keys at 0, values one plane further.
__device__ __forceinline__ u64 in_page(int layer, int value, int slot, int kv_heads, int head, int dim) {
    return ((((u64)layer * 2 + value) * PAGE + slot % PAGE) * kv_heads + head) * dim;
}

__device__ __forceinline__ float cached(u64 page, u64 at, int exact) {
    return exact ? ((const float *)page)[at] : half_to_float(((const u16 *)page)[at]);
}

__device__ __forceinline__ void put(u64 page, u64 at, float value, int exact) {
    if (exact) {
        ((float *)page)[at] = value;
    } else {
        // What is too large becomes the largest: infinite keys would spoil a whole row.
        ((u16 *)page)[at] = float_to_half(fminf(fmaxf(value, -65504.0f), 65504.0f));
    }
}

// Norms heads, rotates queries and keys, stores keys and values. A block a row and head; query heads come first.
// `q`, `k` and `v` are the first columns; without queries `heads` is 0.
KERNEL rotate_store(float *x, int width, int q, int k, int v, int heads, int kv_heads, int dim, const float *q_norm,
                    const float *k_norm, float eps, const float *frequencies, int rotated, int interleaved,
                    const int *rows, const u64 *pages, int layer, int exact) {
    SHARED_FLOATS(shared); // a head, then a float a warp
    float *scratch = shared + dim;
    const int *row = rows + blockIdx.x * ROW;
    int head = (int)blockIdx.y;
    int is_key = head >= heads;
    if (is_key) head -= heads;
    float *x_row = x + (u64)blockIdx.x * width;
    float *at = x_row + (is_key ? k : q) + head * dim;
    const float *weight = is_key ? k_norm : q_norm;
    float squares = 0.0f;
    for (int i = threadIdx.x; i < dim; i += blockDim.x) {
        float value = at[i];
        shared[i] = value;
        squares = fmaf(value, value, squares);
    }
    float scale = 1.0f / sqrtf(block_sum(squares, scratch) / (float)dim + eps);
    if (weight) {
        for (int i = threadIdx.x; i < dim; i += blockDim.x) shared[i] = shared[i] * scale * weight[i];
    }
    __syncthreads();
    u64 page = pages[row[FIRST_PAGE] + row[SLOT] / PAGE];
    u64 key = in_page(layer, 0, row[SLOT], kv_heads, head, dim);
    for (int i = threadIdx.x; i < dim; i += blockDim.x) {
        float value = shared[i];
        if (i < 2 * rotated) {
            int j = interleaved ? i / 2 : i % rotated;
            int second = interleaved ? i % 2 : i / rotated;
            int other = interleaved ? i ^ 1 : (second ? i - rotated : i + rotated);
            float sine, cosine;
            sincosf((float)row[POSITION] * frequencies[j], &sine, &cosine);
            value = second ? value * cosine + shared[other] * sine : value * cosine - shared[other] * sine;
        }
        at[i] = value;
        if (is_key) {
            put(page, key + i, value, exact);
            put(page, in_page(layer, 1, row[SLOT], kv_heads, head, dim) + i, x_row[v + head * dim + i], exact);
        }
    }
}

// Slot of the `number`-th slot that a row sees: the prefix in order, then what its mask picks.
__device__ __forceinline__ int visible_slot(const int *row, const u64 *mask, int number) {
    int prefix = row[END] - row[START];
    if (number < prefix) return row[START] + number;
    number -= prefix;
    for (int word = 0;; word++) {
        u64 bits = mask[word];
        int count = __popcll(bits);
        if (number >= count) {
            number -= count;
            continue;
        }
        for (; number > 0; number--) bits &= bits - 1;
        return row[END] + word * 64 + __ffsll((long long)bits) - 1;
    }
}

// One piece of attention: SPLIT of the slots that a row sees, for up to GROUP query heads of a KV head. Pieces are cut
// by the number of a slot among the visible ones, so the result depends neither on where in a tree the slots stand nor
// on other rows. A block a (piece, KV head and group of query heads, row). Leaves sums, greatest score and total.
KERNEL attend_piece(const float *x, int width, int q, int heads, int kv_heads, int dim, float scale, const int *rows,
                    const u64 *masks, int words, const u64 *pages, int layer, int exact, float *sums, float *peaks,
                    float *totals, int pieces) {
    SHARED_FLOATS(shared);
    const int *row = rows + blockIdx.z * ROW;
    int from = (int)blockIdx.x * SPLIT;
    if (from >= row[VISIBLE]) return;
    int count = min(row[VISIBLE] - from, SPLIT);
    int share = heads / kv_heads;
    int groups = (share + GROUP - 1) / GROUP;
    int kv_head = (int)blockIdx.y / groups;
    int first = kv_head * share + (int)blockIdx.y % groups * GROUP;
    int queries = min(GROUP, kv_head * share + share - first);
    int thread = (int)threadIdx.x;

    float *query = shared;                       // [GROUP][dim]
    float *scores = query + GROUP * dim;         // [GROUP][SPLIT]
    float *mixed = scores + GROUP * SPLIT;       // [GROUP][max(ATTEND_THREADS, dim)]
    int *slots = (int *)(mixed + GROUP * max(ATTEND_THREADS, dim)); // [SPLIT]
    for (int i = thread; i < queries * dim; i += ATTEND_THREADS) {
        query[i] = x[(u64)blockIdx.z * width + q + first * dim + i];
    }
    if (thread < count) slots[thread] = visible_slot(row, masks + (u64)blockIdx.z * words, from + thread);
    __syncthreads();

    // A thread a key.
    if (thread < count) {
        int slot = slots[thread];
        u64 page = pages[row[FIRST_PAGE] + slot / PAGE];
        u64 key = in_page(layer, 0, slot, kv_heads, kv_head, dim);
        float dots[GROUP];
        for (int g = 0; g < GROUP; g++) dots[g] = 0.0f;
        for (int i = 0; i < dim; i++) {
            float value = cached(page, key + i, exact);
            for (int g = 0; g < GROUP; g++) {
                if (g < queries) dots[g] = fmaf(query[g * dim + i], value, dots[g]);
            }
        }
        for (int g = 0; g < queries; g++) scores[g * SPLIT + thread] = dots[g] * scale;
    }
    __syncthreads();

    // A warp a query head.
    int warp = thread / 32, lane = thread % 32;
    for (int g = warp; g < queries; g += ATTEND_THREADS / 32) {
        float peak = MINUS_INFINITY;
        for (int i = lane; i < count; i += 32) peak = fmaxf(peak, scores[g * SPLIT + i]);
        peak = warp_max(peak);
        float total = 0.0f;
        for (int i = lane; i < count; i += 32) {
            float value = expf(scores[g * SPLIT + i] - peak);
            scores[g * SPLIT + i] = value;
            total += value;
        }
        total = warp_sum(total);
        if (lane == 0) {
            u64 at = ((u64)blockIdx.z * heads + first + g) * pieces + blockIdx.x;
            peaks[at] = peak;
            totals[at] = total;
        }
    }
    __syncthreads();

    // A thread a column; what threads are left over share out the keys.
    int shares = max(1, ATTEND_THREADS / dim);
    for (int i = thread; i < shares * dim; i += ATTEND_THREADS) {
        int column = i % dim;
        float acc[GROUP];
        for (int g = 0; g < GROUP; g++) acc[g] = 0.0f;
        for (int j = i / dim; j < count; j += shares) {
            u64 page = pages[row[FIRST_PAGE] + slots[j] / PAGE];
            float value = cached(page, in_page(layer, 1, slots[j], kv_heads, kv_head, dim) + column, exact);
            for (int g = 0; g < GROUP; g++) {
                if (g < queries) acc[g] = fmaf(scores[g * SPLIT + j], value, acc[g]);
            }
        }
        for (int g = 0; g < queries; g++) mixed[g * shares * dim + i] = acc[g];
    }
    __syncthreads();
    for (int i = thread; i < queries * dim; i += ATTEND_THREADS) {
        int g = i / dim, column = i % dim;
        float sum = 0.0f;
        for (int s = 0; s < shares; s++) sum += mixed[(g * shares + s) * dim + column];
        sums[(((u64)blockIdx.z * heads + first + g) * pieces + blockIdx.x) * dim + column] = sum;
    }
}

// Puts the pieces of a row and head together in their order; a block a (head, row).
KERNEL attend_merge(const float *sums, const float *peaks, const float *totals, int pieces, int heads, int dim,
                    const int *rows, float *out) {
    const int *row = rows + blockIdx.y * ROW;
    int used = (row[VISIBLE] + SPLIT - 1) / SPLIT;
    u64 at = ((u64)blockIdx.y * heads + blockIdx.x) * pieces;
    float peak = MINUS_INFINITY;
    for (int piece = 0; piece < used; piece++) peak = fmaxf(peak, peaks[at + piece]);
    float total = 0.0f;
    for (int piece = 0; piece < used; piece++) total = fmaf(totals[at + piece], expf(peaks[at + piece] - peak), total);
    for (int i = threadIdx.x; i < dim; i += blockDim.x) {
        float sum = 0.0f;
        for (int piece = 0; piece < used; piece++) {
            sum = fmaf(sums[(at + piece) * dim + i], expf(peaks[at + piece] - peak), sum);
        }
        out[((u64)blockIdx.y * heads + blockIdx.x) * dim + i] = total > 0.0f ? sum / total : 0.0f;
    }
}

// Moves slots base + path[j] to base + j in every layer; a block a plane (keys or values of a layer). `path` rises, and
// a thread moves its columns in order, so nothing is overwritten that is still needed.
KERNEL keep(const u64 *pages, int base, const u32 *path, int count, int kv_heads, int dim, int exact) {
    int layer = (int)blockIdx.x / 2, value = (int)blockIdx.x % 2;
    for (int i = threadIdx.x; i < kv_heads * dim; i += blockDim.x) {
        for (int j = 0; j < count; j++) {
            int from = base + (int)path[j], to = base + j;
            if (from == to) continue;
            u64 source = in_page(layer, value, from, kv_heads, 0, dim) + i;
            u64 target = in_page(layer, value, to, kv_heads, 0, dim) + i;
            if (exact) {
                ((float *)pages[to / PAGE])[target] = ((const float *)pages[from / PAGE])[source];
            } else {
                ((u16 *)pages[to / PAGE])[target] = ((const u16 *)pages[from / PAGE])[source];
            }
        }
    }
}
