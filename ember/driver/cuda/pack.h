// What CUDA kernels load and store at once. For .cu files of this object.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ember::inline v0::driver::cuda {

/// N adjacent elements, which one instruction moves if they have up to 16 bytes.
template <class T, int N>
struct alignas(sizeof(T) * N) Pack {
  T value[N];
};

/// Whether an address is a multiple of a pack's bytes.
__host__ __device__ inline bool is_aligned(const void* address, std::size_t bytes = 16) {
  return reinterpret_cast<std::uintptr_t>(address) % bytes == 0;
}

}  // namespace ember::inline v0::driver::cuda
