// Operations on rows of activations: embedding, norms, gates, copies.

// One weight of a matrix with `blocks` blocks of 32 columns (F32: `k` columns) and `tiles` tiles of 16 rows.
__device__ __forceinline__ float weight_at(const u8 *w, int format, int row, int column, int k, int tiles) {
    if (format == F32) return ((const float *)w)[(u64)row * k + column];
    int blocks = (k + 31) / 32;
    u64 share = share_index(row, column, blocks);
    int j = column % 8;
    if (format == F16) return half_to_float(((const u16 *)w)[share * 8 + j]);
    if (format == BF16) return bfloat_to_float(((const u16 *)w)[share * 8 + j]);
    u64 place = ((u64)(row / 16) * blocks + column / 32) * 16 + row % 16;
    u64 shares = (u64)tiles * blocks * 64;
    if (format == Q8) {
        float scale = half_to_float(((const u16 *)(w + shares * 8))[place]);
        return scale * (float)((const signed char *)w)[share * 8 + j];
    }
    u32 quants = ((const u32 *)w)[share];
    const u16 *scales = (const u16 *)(w + shares * 4) + place * 2;
    return fmaf(half_to_float(scales[0]), (float)(quants >> (4 * j) & 15u), half_to_float(scales[1]));
}

// out[i] = table[ids[i]] · scale; a block a row.
KERNEL embed(const u8 *table, int format, int k, int tiles, const u32 *ids, float scale, float *out) {
    int row = (int)ids[blockIdx.x];
    for (int i = threadIdx.x; i < k; i += blockDim.x) {
        out[(u64)blockIdx.x * k + i] = weight_at(table, format, row, i, k, tiles) * scale;
    }
}

#define PLAIN 0
#define NORMED 1
#define GATED 2

// Makes the input of a product from a row; a block a row. In F32 into `floats` if that is given, else as the sum of two
// BF16 in `high` and `low`, both padded with zeros to `padded` columns, and the sum of every 32 columns in `sums`.
KERNEL prepare(const float *x, int width, int kind, const float *weight, float eps, int k, int padded, float *floats,
               u16 *high, u16 *low, float *sums) {
    SHARED_FLOATS(scratch);
    u64 row = blockIdx.x;
    const float *in = x + row * width;
    float scale = 1.0f;
    if (kind == NORMED) {
        float squares = 0.0f;
        for (int i = threadIdx.x; i < k; i += blockDim.x) squares = fmaf(in[i], in[i], squares);
        scale = 1.0f / sqrtf(block_sum(squares, scratch) / (float)k + eps);
    }
    for (int i = threadIdx.x; i < padded; i += blockDim.x) {
        float value = 0.0f;
        if (i < k) {
            value = in[i];
            if (kind == NORMED) value = value * scale * weight[i];
            if (kind == GATED) value = value / (1.0f + expf(-value)) * in[k + i];
        }
        if (floats) {
            if (i < k) floats[row * k + i] = value;
        } else {
            u16 upper = float_to_bfloat(value);
            high[row * padded + i] = upper;
            low[row * padded + i] = float_to_bfloat(value - bfloat_to_float(upper));
            float sum = warp_sum(value);
            if (threadIdx.x % 32 == 0) sums[(row * padded + i) / 32] = sum;
        }
    }
}

// RMSNorm in place; a block a row.
KERNEL rms_norm(float *x, int width, const float *weight, float eps) {
    SHARED_FLOATS(scratch);
    float *row = x + (u64)blockIdx.x * width;
    float squares = 0.0f;
    for (int i = threadIdx.x; i < width; i += blockDim.x) squares = fmaf(row[i], row[i], squares);
    float scale = 1.0f / sqrtf(block_sum(squares, scratch) / (float)width + eps);
    for (int i = threadIdx.x; i < width; i += blockDim.x) row[i] = row[i] * scale * weight[i];
}

// x ← cap · tanh(x · scale / cap), or x · scale where there is no cap (0).
KERNEL cap(float *x, u64 count, float scale, float most) {
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    float value = x[i] * scale;
    x[i] = most > 0.0f ? most * tanhf(value / most) : value;
}

// out[at + i] = x[pick[i]]; a block a row.
KERNEL gather(const float *x, const u32 *pick, float *out, int width, int at) {
    const float *from = x + (u64)pick[blockIdx.x] * width;
    float *to = out + (u64)(at + blockIdx.x) * width;
    for (int i = threadIdx.x; i < width; i += blockDim.x) to[i] = from[i];
}

// Copies rows of x into out from a column on; a block a row.
KERNEL place(const float *x, int width, float *out, int out_width, int column) {
    const float *from = x + (u64)blockIdx.x * width;
    float *to = out + (u64)blockIdx.x * out_width + column;
    for (int i = threadIdx.x; i < width; i += blockDim.x) to[i] = from[i];
}

// A convolution over the rows of a block whose kernels come partly from the rows: out[i][c] (+)= Σ_t (base[t][c] +
// kernels[i][at + t · width/group + c/group]) · x[i − t][c]. `before` has how many rows of its block stand before a row.
KERNEL convolve(const float *x, int width, const float *kernels, int kernels_width, int at, const float *base,
                int taps, int group, const u32 *before, float *out, int add) {
    u64 row = blockIdx.x;
    int reach = (int)before[row] + 1 < taps ? (int)before[row] + 1 : taps;
    for (int c = threadIdx.x; c < width; c += blockDim.x) {
        float sum = add ? out[row * width + c] : 0.0f;
        for (int t = 0; t < reach; t++) {
            float own = kernels[row * kernels_width + at + t * (width / group) + c / group];
            sum += (base[(u64)t * width + c] + own) * x[(row - t) * width + c];
        }
        out[row * width + c] = sum;
    }
}

// out += x.
KERNEL add(const float *x, u64 count, float *out) {
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) out[i] += x[i];
}
