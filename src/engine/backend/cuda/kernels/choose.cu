// Choosing from rows of logits.

// Whether (value, index) comes before (other, at): greater, or equal and further left. NaN comes after everything.
__device__ __forceinline__ bool before(float value, u32 index, float other, u32 at) {
    if (value == other) return index < at;
    return value > other || (other != other && (value == value || index < at));
}

// Best and second best value of every row: out[row] = {index, value, second} as bits; a block a row.
KERNEL best(const float *x, int width, u32 *out) {
    SHARED_FLOATS(shared); // value, second, index: a number a thread each
    float *values = shared;
    float *seconds = values + blockDim.x;
    u32 *indices = (u32 *)(seconds + blockDim.x);
    const float *row = x + (u64)blockIdx.x * width;
    float value = MINUS_INFINITY, second = MINUS_INFINITY;
    u32 index = 0xffffffffu;
    for (u32 i = threadIdx.x; i < (u32)width; i += blockDim.x) {
        float v = row[i];
        if (v > value || (index == 0xffffffffu && v == v)) {
            second = fmaxf(second, value);
            value = v;
            index = i;
        } else {
            second = fmaxf(second, v);
        }
    }
    values[threadIdx.x] = value;
    seconds[threadIdx.x] = second;
    indices[threadIdx.x] = index;
    for (u32 half = blockDim.x / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) {
            u32 other = threadIdx.x + half;
            u32 loser = other;
            if (before(values[other], indices[other], values[threadIdx.x], indices[threadIdx.x])) {
                loser = threadIdx.x;
            }
            float lost = values[loser];
            float most = fmaxf(fmaxf(seconds[threadIdx.x], seconds[other]), lost);
            if (loser != other) {
                values[threadIdx.x] = values[other];
                indices[threadIdx.x] = indices[other];
            }
            seconds[threadIdx.x] = most;
        }
    }
    if (threadIdx.x == 0) {
        out[blockIdx.x * 3] = indices[0] == 0xffffffffu ? 0u : indices[0];
        out[blockIdx.x * 3 + 1] = __float_as_uint(values[0]);
        out[blockIdx.x * 3 + 2] = __float_as_uint(seconds[0]);
    }
}

// Integers in the order of the floats; NaN below all.
__device__ __forceinline__ u32 ordered(float value) {
    if (value != value) return 0u;
    u32 bits = __float_as_uint(value);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

// Greater is better: the value first, then the lower index.
__device__ __forceinline__ u64 rank(float value, u32 index) {
    return (u64)ordered(value) << 32 | (u32)~index;
}

#define TOP_THREADS 512
#define TOP_MOST 1024

// The k ≤ TOP_MOST best entries of every row with their log-probabilities, best first, ties to the lower index:
// out[row][k] = {index, log-probability as bits}. The k-th best rank is found digit by digit; the low half of the rank
// is looked at only where values tie at the border. A block a row.
KERNEL top(const float *x, int width, int first, int k, int room, u32 *out) {
    SHARED_FLOATS(shared);
    float *scratch = shared;                         // 32
    u32 *counts = (u32 *)(scratch + 32);             // 256
    u32 *state = counts + 256;                       // 4: digit, what is still wanted of it, its entries, found
    u64 *found = (u64 *)(state + 4);                 // room: a power of two, at least k
    const float *row = x + (u64)(first + blockIdx.x) * width;
    u32 thread = threadIdx.x;

    float peak = MINUS_INFINITY;
    for (u32 i = thread; i < (u32)width; i += blockDim.x) peak = fmaxf(peak, row[i]);
    peak = block_max(peak, scratch);
    float total = 0.0f;
    for (u32 i = thread; i < (u32)width; i += blockDim.x) total += expf(row[i] - peak);
    float norm = peak + logf(block_sum(total, scratch));

    u64 border = 0, known = 0; // digits of the border found so far, and where they stand
    u32 wanted = (u32)k;
    for (int shift = 56; shift >= 0; shift -= 8) {
        for (u32 i = thread; i < 256; i += blockDim.x) counts[i] = 0;
        __syncthreads();
        for (u32 i = thread; i < (u32)width; i += blockDim.x) {
            u64 mine = rank(row[i], i);
            if ((mine & known) == border) atomicAdd(&counts[mine >> shift & 255u], 1u);
        }
        __syncthreads();
        if (thread == 0) {
            u32 digit = 255;
            while (counts[digit] < wanted) {
                wanted -= counts[digit];
                digit--;
            }
            state[0] = digit;
            state[1] = wanted;
            state[2] = counts[digit];
            state[3] = 0;
        }
        __syncthreads();
        border |= (u64)state[0] << shift;
        known |= 255ull << shift;
        wanted = state[1];
        // All of them belong to the best: whatever follows lies above the border.
        if (state[2] == wanted) break;
        __syncthreads();
    }
    for (u32 i = thread; i < (u32)room; i += blockDim.x) found[i] = 0;
    __syncthreads();
    for (u32 i = thread; i < (u32)width; i += blockDim.x) {
        u64 mine = rank(row[i], i);
        if ((mine & known) >= border) {
            u32 at = atomicAdd(&state[3], 1u);
            if (at < (u32)room) found[at] = mine;
        }
    }
    // Bitonic, greatest first.
    for (u32 size = 2; size <= (u32)room; size *= 2) {
        for (u32 step = size / 2; step > 0; step /= 2) {
            __syncthreads();
            for (u32 i = thread; i < (u32)room; i += blockDim.x) {
                u32 other = i ^ step;
                if (other > i) {
                    u64 a = found[i], b = found[other];
                    if ((a < b) == ((i & size) == 0)) {
                        found[i] = b;
                        found[other] = a;
                    }
                }
            }
        }
    }
    __syncthreads();
    for (u32 i = thread; i < (u32)k; i += blockDim.x) {
        u32 index = ~(u32)found[i];
        u64 at = ((u64)blockIdx.x * k + i) * 2;
        out[at] = index;
        out[at + 1] = __float_as_uint(row[index] - norm);
    }
}
