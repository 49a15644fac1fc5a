// Layers with a recurrent state: convolution, gated delta rule, output norm (the formulas and why they are used are told
// in backend/delta.rs).
//
// What a session keeps of its last slots lies in rings: slot s at line s mod R of inputs, keys, deltas and decays.

// Numbers a session in `sessions`: addresses of the state and of the four rings, lines of a ring, where the session's
// work begins and ends, address of its states beyond anchors inside the call.
#define SESSION 9
// Numbers of a piece of work: level, row (or −1: move a state over an anchor), slots on the path, the slots.
#define WORK 19
#define STEPS 16

struct Rings {
    float *state, *inputs, *keys, *deltas, *decays, *levels;
    int lines, from, to;
};

__device__ __forceinline__ Rings rings_of(const u64 *sessions, int session) {
    const u64 *s = sessions + session * SESSION;
    Rings rings;
    rings.state = (float *)s[0];
    rings.inputs = (float *)s[1];
    rings.keys = (float *)s[2];
    rings.deltas = (float *)s[3];
    rings.decays = (float *)s[4];
    rings.lines = (int)s[5];
    rings.from = (int)s[6];
    rings.to = (int)s[7];
    rings.levels = (float *)s[8];
    return rings;
}

// Puts a row's inputs and decays into the rings; a block a row. `places` has session and slot of every row.
KERNEL delta_take(const float *x, int width, int taken, const float *gates, int heads, const float *decay,
                  const float *bias, const int *places, const u64 *sessions, float *betas) {
    u64 row = blockIdx.x;
    Rings rings = rings_of(sessions, places[row * 2]);
    u64 line = places[row * 2 + 1] % rings.lines;
    for (int i = threadIdx.x; i < taken; i += blockDim.x) rings.inputs[line * taken + i] = x[row * width + i];
    for (int h = threadIdx.x; h < heads; h += blockDim.x) {
        float b = gates[row * 2 * heads + h];
        float a = gates[row * 2 * heads + heads + h] + bias[h];
        betas[row * heads + h] = 1.0f / (1.0f + expf(-b));
        float step = a > 20.0f ? a : log1pf(expf(a));
        rings.decays[line * heads + h] = expf(decay[h] * step);
    }
}

// Convolution of a head of queries, keys or values; a block a (head, row). Queries and keys get length one. `before` has
// the slots of the row's `kernel` newest on its path, the row itself first, −1 beyond the start.
KERNEL delta_mix(const float *conv, int kernel, int taken, int key_heads, int key_dim, int value_heads, int value_dim,
                 const int *places, const int *before, const u64 *sessions, float *queries, float *values) {
    SHARED_FLOATS(scratch);
    u64 row = blockIdx.y;
    int head = (int)blockIdx.x;
    Rings rings = rings_of(sessions, places[row * 2]);
    u64 line = places[row * 2 + 1] % rings.lines;
    int kind = head < key_heads ? 0 : head < 2 * key_heads ? 1 : 2;
    int dim = kind == 2 ? value_dim : key_dim;
    int first = kind == 2 ? 2 * key_heads * key_dim + (head - 2 * key_heads) * value_dim : head * key_dim;
    float *to = kind == 0 ? queries + row * key_heads * key_dim + head * key_dim
        : kind == 1       ? rings.keys + line * key_heads * key_dim + (head - key_heads) * key_dim
                          : values + row * value_heads * value_dim + (head - 2 * key_heads) * value_dim;
    float squares = 0.0f;
    for (int i = threadIdx.x; i < dim; i += blockDim.x) {
        float sum = 0.0f;
        for (int back = 0; back < kernel; back++) {
            int slot = before[row * kernel + back];
            if (slot < 0) break;
            float input = rings.inputs[(u64)(slot % rings.lines) * taken + first + i];
            sum = fmaf(input, conv[(u64)(kernel - 1 - back) * taken + first + i], sum);
        }
        float value = sum / (1.0f + expf(-sum));
        to[i] = value;
        squares = fmaf(value, value, squares);
    }
    if (kind == 2) return;
    float by = (kind == 0 ? 1.0f / sqrtf((float)key_dim) : 1.0f) / sqrtf(block_sum(squares, scratch) + 1e-6f);
    for (int i = threadIdx.x; i < dim; i += blockDim.x) to[i] *= by;
}

// The rule, for a value head of a session: its rows in the order of `work`. A block a (value head, session). A thread
// has columns of the state for itself, so that rows need barriers only for what they share of keys and queries.
KERNEL delta_rule(const int *work, int key_heads, int key_dim, int value_heads, int value_dim, int tiled,
                  const u64 *sessions, const float *queries, const float *values, const float *betas, float *out) {
    SHARED_FLOATS(shared); // key, query: key_dim each; products with the path: 2 · STEPS
    float *key = shared, *query = key + key_dim, *by_key = query + key_dim, *by_query = by_key + STEPS;
    int head = (int)blockIdx.x;
    int key_head = tiled ? head % key_heads : head / (value_heads / key_heads);
    Rings rings = rings_of(sessions, (int)blockIdx.y);
    int thread = (int)threadIdx.x, threads = (int)blockDim.x;
    u64 size = (u64)key_dim * value_dim, keys_wide = (u64)key_heads * key_dim, values_wide = (u64)value_heads * value_dim;
    for (int w = rings.from; w < rings.to; w++) {
        const int *piece = work + (u64)w * WORK;
        int level = piece[0], row = piece[1], count = piece[2];
        const int *slots = piece + 3;
        float *states = level == 0 ? rings.state : rings.levels + (u64)(level - 1) * value_heads * size;
        float *state = states + head * size;
        if (row < 0) {
            // Over an anchor, from the level before (or in place): S ← αS + kδᵀ, one slot of the path after the other.
            const float *old = level <= 1 ? rings.state + head * size
                                          : rings.levels + ((u64)(level - 2) * value_heads + head) * size;
            for (int c = thread; c < value_dim; c += threads) {
                for (int d = 0; d < key_dim; d++) {
                    float s = old[(u64)d * value_dim + c];
                    for (int j = 0; j < count; j++) {
                        u64 line = slots[j] % rings.lines;
                        s *= rings.decays[line * value_heads + head];
                        s = fmaf(rings.keys[line * keys_wide + key_head * key_dim + d],
                                 rings.deltas[line * values_wide + head * value_dim + c], s);
                    }
                    state[(u64)d * value_dim + c] = s;
                }
            }
            continue;
        }
        // The row itself is the last slot of its path.
        u64 own = slots[count - 1] % rings.lines;
        __syncthreads();
        for (int d = thread; d < key_dim; d += threads) {
            key[d] = rings.keys[own * keys_wide + key_head * key_dim + d];
            query[d] = queries[(u64)row * keys_wide + key_head * key_dim + d];
        }
        __syncthreads();
        for (int j = thread / 32; j < count; j += threads / 32) {
            const float *other = rings.keys + (slots[j] % rings.lines) * keys_wide + key_head * key_dim;
            float k = 0.0f, q = 0.0f;
            for (int d = thread % 32; d < key_dim; d += 32) {
                k = fmaf(key[d], other[d], k);
                q = fmaf(query[d], other[d], q);
            }
            k = warp_sum(k);
            q = warp_sum(q);
            if (thread % 32 == 0) {
                by_key[j] = k;
                by_query[j] = q;
            }
        }
        __syncthreads();
        for (int c = thread; c < value_dim; c += threads) {
            float stored = 0.0f, read = 0.0f;
            for (int d = 0; d < key_dim; d++) {
                float s = state[(u64)d * value_dim + c];
                stored = fmaf(key[d], s, stored);
                read = fmaf(query[d], s, read);
            }
            float share = rings.decays[own * value_heads + head];
            float corrected = 0.0f, o = 0.0f;
            for (int j = count - 2; j >= 0; j--) {
                u64 line = slots[j] % rings.lines;
                float delta = rings.deltas[line * values_wide + head * value_dim + c];
                corrected = fmaf(share * by_key[j], delta, corrected);
                o = fmaf(share * by_query[j], delta, o);
                share *= rings.decays[line * value_heads + head];
            }
            float beta = betas[(u64)row * value_heads + head];
            float value = values[(u64)row * values_wide + head * value_dim + c];
            float delta = beta * (value - share * stored - corrected);
            rings.deltas[own * values_wide + head * value_dim + c] = delta;
            o = fmaf(share, read, o);
            out[(u64)row * values_wide + head * value_dim + c] = fmaf(by_query[count - 1], delta, o);
        }
    }
}

// out = rms_norm(out) · weight · silu(z); a block a (value head, row).
KERNEL delta_finish(float *out, int value_heads, int value_dim, const float *weight, float eps, const float *x,
                    int width, int column) {
    SHARED_FLOATS(scratch);
    float *at = out + ((u64)blockIdx.y * value_heads + blockIdx.x) * value_dim;
    const float *z = x + (u64)blockIdx.y * width + column + blockIdx.x * value_dim;
    float squares = 0.0f;
    for (int i = threadIdx.x; i < value_dim; i += blockDim.x) squares = fmaf(at[i], at[i], squares);
    float scale = 1.0f / sqrtf(block_sum(squares, scratch) / (float)value_dim + eps);
    for (int i = threadIdx.x; i < value_dim; i += blockDim.x) {
        at[i] = at[i] * scale * weight[i] * (z[i] / (1.0f + expf(-z[i])));
    }
}

// Moves lines base + path[j] to base + j of a ring; a block a ring, of which `rings` has addresses and widths. Lines are
// moved in order, and `path` rises.
KERNEL delta_keep(const u64 *rings, int lines, int base, const u32 *path, int count) {
    float *ring = (float *)rings[blockIdx.x * 2];
    u64 width = rings[blockIdx.x * 2 + 1];
    for (u64 i = threadIdx.x; i < width; i += blockDim.x) {
        for (int j = 0; j < count; j++) {
            int from = base + (int)path[j], to = base + j;
            if (from != to) ring[(u64)(to % lines) * width + i] = ring[(u64)(from % lines) * width + i];
        }
    }
}

// x ← x · σ(gates) from a column of the gates on; a block a row.
KERNEL gate(float *x, int width, const float *gates, int gates_width, int column) {
    u64 row = blockIdx.x;
    for (int i = threadIdx.x; i < width; i += blockDim.x) {
        x[row * width + i] /= 1.0f + expf(-gates[row * gates_width + column + i]);
    }
}
