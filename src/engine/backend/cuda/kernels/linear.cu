// Products of weights with activation rows: out[r][o] (+)= Σ x[r][k] · w[o][k].
//
// A row's sum is made of the same operations in the same order whatever the number of rows, so a verify pass gives the
// logits of plain decoding bit by bit. One set of kernels therefore serves one row and a whole prompt; a library's
// product, which picks its way by the shape, would not do.

#define WARPS 8

// F32 weights, row-major: a warp an out feature, M activation rows at a time. Exact products, for reference runs.
template <int M>
__device__ __forceinline__ void floats(const float *w, const float *x, float *out, int n, int k, int rows, int add) {
    int o = (int)(blockIdx.x * WARPS + threadIdx.x / 32);
    int lane = (int)threadIdx.x % 32;
    int first = (int)blockIdx.y * M;
    if (o >= n) return;
    float sums[M];
    for (int r = 0; r < M; r++) sums[r] = 0.0f;
    for (int i = lane; i < k; i += 32) {
        float weight = w[(u64)o * k + i];
        for (int r = 0; r < M; r++) {
            if (first + r < rows) sums[r] = fmaf(x[(u64)(first + r) * k + i], weight, sums[r]);
        }
    }
    for (int r = 0; r < M; r++) {
        if (first + r >= rows) break;
        float sum = warp_sum(sums[r]);
        if (lane == 0) {
            float *to = out + (u64)(first + r) * n + o;
            *to = add ? *to + sum : sum;
        }
    }
}

KERNEL linear_f32_1(const float *w, const float *x, float *out, int n, int k, int rows, int add) {
    floats<1>(w, x, out, n, k, rows, add);
}

KERNEL linear_f32_8(const float *w, const float *x, float *out, int n, int k, int rows, int add) {
    floats<8>(w, x, out, n, k, rows, add);
}

__device__ __forceinline__ u32 pair(float low, float high) {
    return (u32)float_to_bfloat(low) | (u32)float_to_bfloat(high) << 16;
}

// As `pair`, for numbers that BF16 has exactly.
__device__ __forceinline__ u32 exact_pair(float low, float high) {
    return __float_as_uint(low) >> 16 | (__float_as_uint(high) & 0xffff0000u);
}

// A lane's share of a block as the A operands of two products of 16 columns: `a[0]` takes columns 0 to 3 of the lane's
// eight, `a[1]` the others. Which column meets which does not matter as long as the activations are dealt out alike.
template <int FORMAT>
__device__ __forceinline__ void weights(const u8 *w, u64 block, int lane, u32 a[2][4], u32 rest[2][4]) {
    if (FORMAT == BF16 || FORMAT == F16) {
        const uint4 *share = (const uint4 *)w + (block * 32 + lane) * 2;
        uint4 upper = share[0], lower = share[1];
        u32 words[2][4] = {{upper.x, lower.x, upper.y, lower.y}, {upper.z, lower.z, upper.w, lower.w}};
        for (int h = 0; h < 2; h++) {
            for (int i = 0; i < 4; i++) {
                u32 word = words[h][i];
                if (FORMAT == BF16) {
                    a[h][i] = word;
                } else {
                    // An F16 number is the sum of two BF16 numbers.
                    float x = half_to_float((u16)word), y = half_to_float((u16)(word >> 16));
                    a[h][i] = pair(x, y);
                    rest[h][i] = pair(x - bfloat_to_float((u16)a[h][i]), y - bfloat_to_float((u16)(a[h][i] >> 16)));
                }
            }
        }
    } else if (FORMAT == Q8) {
        // Integers up to 256 are exact in BF16.
        uint4 share = ((const uint4 *)w)[block * 32 + lane];
        u32 words[2][2] = {{share.x, share.z}, {share.y, share.w}};
        for (int h = 0; h < 2; h++) {
            for (int half = 0; half < 2; half++) {
                u32 word = words[h][half];
                a[h][half] = exact_pair((float)(signed char)word, (float)(signed char)(word >> 8));
                a[h][half + 2] = exact_pair((float)(signed char)(word >> 16), (float)(signed char)(word >> 24));
            }
        }
    } else {
        uint2 share = ((const uint2 *)w)[block * 32 + lane];
        u32 words[2] = {share.x, share.y};
        for (int h = 0; h < 2; h++) {
            for (int half = 0; half < 2; half++) {
                u32 word = words[half] >> (16 * h);
                a[h][half] = exact_pair((float)(word & 15u), (float)(word >> 4 & 15u));
                a[h][half + 2] = exact_pair((float)(word >> 8 & 15u), (float)(word >> 12 & 15u));
            }
        }
    }
}

// A block of threads makes 16 out features of 8 · N rows; its warps take every eighth block of 32 columns and add up
// in the order of their numbers.
template <int FORMAT, int N>
__device__ __forceinline__ void tiles(const u8 *w, const u16 *high, const u16 *low, const float *sums, float *out,
                                      int n, int blocks, int rows, int add) {
    SHARED_FLOATS(shared);
    int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    int group = lane / 4, quarter = lane % 4;
    int first = (int)blockIdx.y * 8 * N;
    u64 tile = blockIdx.x;
    const u16 *scales = (const u16 *)(w + (u64)gridDim.x * blocks * (FORMAT == Q8 ? 512 : 256));
    float acc[N][4];
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < 4; j++) acc[i][j] = 0.0f;
    }
    for (int b = warp; b < blocks; b += WARPS) {
        u64 block = tile * blocks + b;
        u32 a[2][4], rest[2][4];
        weights<FORMAT>(w, block, lane, a, rest);
        float scale[2] = {1.0f, 1.0f}, least[2] = {0.0f, 0.0f};
        for (int half = 0; half < 2; half++) {
            u64 place = block * 16 + group + 8 * half;
            if (FORMAT == Q8) scale[half] = half_to_float(scales[place]);
            if (FORMAT == Q4) {
                scale[half] = half_to_float(scales[place * 2]);
                least[half] = half_to_float(scales[place * 2 + 1]);
            }
        }
        for (int i = 0; i < N; i++) {
            int row = first + 8 * i + group;
            uint4 upper = make_uint4(0, 0, 0, 0), lower = upper;
            if (row < rows) {
                u64 at = ((u64)row * blocks + b) * 4 + quarter;
                upper = ((const uint4 *)high)[at];
                lower = ((const uint4 *)low)[at];
            }
            u32 xh[2][2] = {{upper.x, upper.y}, {upper.z, upper.w}};
            u32 xl[2][2] = {{lower.x, lower.y}, {lower.z, lower.w}};
            float part[4] = {0.0f, 0.0f, 0.0f, 0.0f};
            // Not quantised: one running sum. Quantised: the block's sum first, because it has a scale of its own.
            float *sum = FORMAT == Q8 || FORMAT == Q4 ? part : acc[i];
            for (int h = 0; h < 2; h++) {
                multiply_tile(sum, a[h], xh[h]);
                multiply_tile(sum, a[h], xl[h]);
                if (FORMAT == F16) {
                    multiply_tile(sum, rest[h], xh[h]);
                    multiply_tile(sum, rest[h], xl[h]);
                }
            }
            if (FORMAT == Q8 || FORMAT == Q4) {
                for (int j = 0; j < 4; j++) {
                    acc[i][j] = fmaf(scale[j / 2], part[j], acc[i][j]);
                    int r = first + 8 * i + quarter * 2 + j % 2;
                    if (FORMAT == Q4 && r < rows) {
                        acc[i][j] = fmaf(least[j / 2], sums[(u64)r * blocks + b], acc[i][j]);
                    }
                }
            }
        }
    }
    // [warp][row][feature]
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < 4; j++) {
            int r = 8 * i + quarter * 2 + j % 2, o = group + j / 2 * 8;
            shared[(warp * 8 * N + r) * 16 + o] = acc[i][j];
        }
    }
    __syncthreads();
    for (int at = (int)threadIdx.x; at < 8 * N * 16; at += (int)blockDim.x) {
        int row = first + at / 16, o = (int)tile * 16 + at % 16;
        if (row >= rows || o >= n) continue;
        float sum = shared[at];
        for (int other = 1; other < WARPS; other++) sum += shared[other * 8 * N * 16 + at];
        float *to = out + (u64)row * n + o;
        *to = add ? *to + sum : sum;
    }
}

#define TILES(name, FORMAT, N)                                                                                        \
    KERNEL name(const u8 *w, const u16 *high, const u16 *low, const float *sums, float *out, int n, int blocks,      \
                int rows, int add) {                                                                                  \
        tiles<FORMAT, N>(w, high, low, sums, out, n, blocks, rows, add);                                              \
    }

TILES(linear_f16_1, F16, 1)
TILES(linear_f16_4, F16, 4)
TILES(linear_bf16_1, BF16, 1)
TILES(linear_bf16_2, BF16, 2)
TILES(linear_bf16_4, BF16, 4)
TILES(linear_q8_1, Q8, 1)
TILES(linear_q8_2, Q8, 2)
TILES(linear_q8_4, Q8, 4)
TILES(linear_q4_1, Q4, 1)
TILES(linear_q4_2, Q4, 2)
TILES(linear_q4_4, Q4, 4)
