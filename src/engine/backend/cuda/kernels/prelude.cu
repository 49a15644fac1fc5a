// What all kernels share. Compiled by NVRTC without any header; the tests compile the same text as C++.
//
// Contraction is off (--fmad=false) and fused operations are written out, so that a row's sums are the same bits in
// every variant of a kernel, however many rows it takes at once.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define FULL_WARP 0xffffffffu
// Floats that are no numbers, without a header.
#define MINUS_INFINITY (-__int_as_float(0x7f800000))

#ifndef SPECTOP_SIMULATED
#define KERNEL extern "C" __global__ void
// Names the dynamic shared memory of a block.
#define SHARED_FLOATS(name) extern __shared__ __align__(16) float name[]

__device__ __forceinline__ float half_to_float(u16 bits) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
}

__device__ __forceinline__ u16 float_to_half(float value) {
    u16 bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}

// c[16][8] += a[16][16] · b[16][8] over a warp, BF16 in, F32 sums; the registers are laid out as PTX says for m16n8k16.
__device__ __forceinline__ void multiply_tile(float c[4], const u32 a[4], const u32 b[2]) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#endif

__device__ __forceinline__ float bfloat_to_float(u16 bits) {
    return __uint_as_float((u32)bits << 16);
}

// Rounds to nearest, ties to even; what is no number stays none.
__device__ __forceinline__ u16 float_to_bfloat(float value) {
    u32 bits = __float_as_uint(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return (u16)(bits >> 16 | 0x40u);
    return (u16)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

// The same bits in all lanes: a butterfly adds the same pairs everywhere.
__device__ __forceinline__ float warp_sum(float value) {
    for (int distance = 16; distance > 0; distance >>= 1) value += __shfl_xor_sync(FULL_WARP, value, distance);
    return value;
}

__device__ __forceinline__ float warp_max(float value) {
    for (int distance = 16; distance > 0; distance >>= 1) {
        value = fmaxf(value, __shfl_xor_sync(FULL_WARP, value, distance));
    }
    return value;
}

// Sum over a block of whole warps, in all threads; `scratch` holds a float a warp.
__device__ __forceinline__ float block_sum(float value, float *scratch) {
    value = warp_sum(value);
    __syncthreads();
    if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = value;
    __syncthreads();
    float total = 0.0f;
    for (u32 warp = 0; warp < blockDim.x / 32; warp++) total += scratch[warp];
    return total;
}

__device__ __forceinline__ float block_max(float value, float *scratch) {
    value = warp_max(value);
    __syncthreads();
    if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = value;
    __syncthreads();
    float most = scratch[0];
    for (u32 warp = 1; warp < blockDim.x / 32; warp++) most = fmaxf(most, scratch[warp]);
    return most;
}

// How a matrix is held; `Format` on the host names the same numbers.
#define F32 0
#define F16 1
#define BF16 2
#define Q8 3
#define Q4 4

// Formats below F32's are kept as multiply_tile reads them: tiles of 16 rows, in a tile blocks of 32 columns, in a block
// the shares of the 32 lanes. Lane 4·g + t has columns 8·t … 8·t + 7 of rows g and g + 8, row g first. Behind all shares
// stand the scales: for every tile and block 16 F16 (Q8), or 16 pairs of scale and minimum (Q4).
__device__ __forceinline__ u64 share_index(int row, int column, int blocks) {
    u64 block = (u64)(row / 16) * blocks + column / 32;
    int lane = row % 8 * 4 + column % 32 / 8;
    return (block * 32 + lane) * 2 + row % 16 / 8;
}
