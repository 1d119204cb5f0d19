// The host implementations of sort and topk. Both work on pairs of a key and an index, of which no
// two are equal, so every way to put them in order gives the same result.
#include <algorithm>
#include <cstdlib>
#include <memory>

#include "ember/base/host_memory.h"
#include "ember/ops/host/parts.h"
#include "ember/ops/host/vector.h"
#include "ember/ops/sort_args.h"
#include "ember/ops/sort_kernels.h"

namespace ember::inline v0::ops {
namespace {

using driver::HostLaunch;
using driver::Params;

template <class Key>
struct Entry {
  Key key;
  std::int64_t index;

  Entry() = default;
  Entry(Key k, std::int64_t i) : key(k), index(i) {}
  std::size_t digit(unsigned shift) const {
    return static_cast<std::size_t>((key >> shift) & 255U);
  }
  friend bool operator<(const Entry& a, const Entry& b) {
    return a.key != b.key ? a.key < b.key : a.index < b.index;
  }
};

/// The same in one number, for keys and indices of up to 32 bits.
struct Packed {
  static constexpr std::int64_t kMax = std::int64_t{1} << 32;  ///< elements

  std::uint64_t bits;

  Packed() = default;
  Packed(std::uint32_t key, std::int64_t index)
      : bits(std::uint64_t{key} << 32 | static_cast<std::uint64_t>(index)) {}
  std::size_t digit(unsigned shift) const {
    return static_cast<std::size_t>((bits >> (32 + shift)) & 255U);
  }
  friend bool operator<(const Packed& a, const Packed& b) { return a.bits < b.bits; }
};

std::int64_t index_of(const Packed& entry) {
  return static_cast<std::int64_t>(entry.bits & 0xffffffffU);
}
template <class Key>
std::int64_t index_of(const Entry<Key>& entry) {
  return entry.index;
}

struct Free {
  void operator()(void* memory) const noexcept { free_host_memory(memory); }
};
template <class Item>
std::unique_ptr<Item[], Free> make_entries(std::int64_t count) {
  static_assert(std::is_trivially_copyable_v<Item>);
  const std::size_t bytes =
      std::max<std::size_t>(static_cast<std::size_t>(count), 1) * sizeof(Item);
  return std::unique_ptr<Item[], Free>(static_cast<Item*>(allocate_host_memory(64, bytes)));
}

Status no_memory(std::int64_t count) {
  return Status(Code::out_of_memory,
                "the host has no memory to put " + std::to_string(count) + " elements in order");
}

/// The first piece of adjacent elements from `i` on in which one is better than `worst`; the end of
/// the last whole piece if there is none.
template <class Key>
[[gnu::always_inline]] inline std::int64_t skip_body(const Key* in, std::int64_t i, std::int64_t n,
                                                     KeyOrder order, Key worst) {
  constexpr int kPiece = 128;
  for (; i + kPiece <= n; i += kPiece) {
    const Key* piece = in + i;
    Key best = worst;
    for (int k = 0; k < kPiece; ++k) best = std::min(best, order.key(piece[k]));
    if (best < worst) break;
  }
  return i;
}
template <class Key>
EMBER_VECTOR_CODE std::int64_t skip_vector(const Key* in, std::int64_t i, std::int64_t n,
                                           KeyOrder order, Key worst) {
  return skip_body(in, i, n, order, worst);
}
template <class Key>
std::int64_t skip(const Key* in, std::int64_t i, std::int64_t n, KeyOrder order, Key worst) {
  if (host::has_avx2) return skip_vector(in, i, n, order, worst);
#if EMBER_HOST_AVX2
  return skip_body(in, i, n, order, worst);
#endif
}

template <class Key>
Status topk_rows(const TopkArgs& args, const Key* in, Key* values, std::int64_t* indices,
                 std::int64_t rows) {
  const auto best = make_entries<Entry<Key>>(args.k);
  if (best == nullptr) return no_memory(args.k);
  Entry<Key>* const end = best.get() + args.k;
  for (std::int64_t row = 0; row < rows; ++row, in += args.n) {
    for (std::int64_t i = 0; i < args.k; ++i)
      best[static_cast<std::size_t>(i)] = {args.order.key(in[i]), i};
    // The worst of the best is in front.
    std::make_heap(best.get(), end);
    for (std::int64_t i = args.k; i < args.n;) {
      i = skip(in, i, args.n, args.order, best[0].key);
      for (const std::int64_t last = std::min(i + 128, args.n); i < last; ++i) {
        const Key key = args.order.key(in[i]);
        if (!(key < best[0].key)) continue;  // with equal keys, the earlier one stays
        std::pop_heap(best.get(), end);
        end[-1] = {key, i};
        std::push_heap(best.get(), end);
      }
    }
    std::sort_heap(best.get(), end);
    for (const Entry<Key>* entry = best.get(); entry != end; ++entry) {
      *values++ = in[entry->index];
      *indices++ = entry->index;
    }
  }
  return {};
}

template <class Key>
Status topk_implementation(const Params& params, const HostLaunch& on) {
  const auto& args = params.as<TopkArgs>();
  const auto outputs = static_cast<std::size_t>(args.rows * args.k);
  const Key* in =
      on.at(static_cast<const Key*>(args.in), static_cast<std::size_t>(args.rows * args.n));
  if (in == nullptr) return on.fault();
  Key* values = on.at(static_cast<Key*>(args.values), outputs);
  if (values == nullptr) return on.fault();
  std::int64_t* indices = on.at(args.indices, outputs);
  if (indices == nullptr) return on.fault();
  return host::try_in_pieces(on, args.rows, host::least_steps(args.n),
                             [&](std::int64_t first, std::int64_t last) {
                               return topk_rows(args, in + first * args.n, values + first * args.k,
                                                indices + first * args.k, last - first);
                             });
}

/// By eight bits at a time, from the lowest; what comes out is in the returned one of the two.
template <class Key, class Item>
Item* radix_sort(Item* from, Item* to, std::int64_t n) {
  constexpr unsigned kPasses = sizeof(Key);
  std::int64_t counts[kPasses][kDigits] = {};
  for (std::int64_t i = 0; i < n; ++i)
    for (unsigned pass = 0; pass < kPasses; ++pass) ++counts[pass][from[i].digit(8 * pass)];
  for (unsigned pass = 0; pass < kPasses; ++pass) {
    std::int64_t* const places = counts[pass];
    if (places[from[0].digit(8 * pass)] == n) continue;
    std::int64_t next = 0;
    for (std::int64_t digit = 0; digit < kDigits; ++digit) {
      const std::int64_t count = places[digit];
      places[digit] = next;
      next += count;
    }
    for (std::int64_t i = 0; i < n; ++i) to[places[from[i].digit(8 * pass)]++] = from[i];
    std::swap(from, to);
  }
  return from;
}

template <class Key, class Item>
Status sort_items(const SortArgs& args, const Key* in, Key* values, std::int64_t* indices,
                  std::int64_t rows) {
  constexpr std::int64_t kFew = 256;  // where comparing is faster than counting digits
  const bool few = args.n < kFew;
  const auto entries = make_entries<Item>(args.n);
  const auto others = few ? nullptr : make_entries<Item>(args.n);
  if (entries == nullptr || (!few && others == nullptr)) return no_memory(args.n);
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t i = 0; i < args.n; ++i) entries[i] = Item(args.order.key(in[i]), i);
    const Item* sorted = entries.get();
    if (few)
      std::sort(entries.get(), entries.get() + args.n);
    else
      sorted = radix_sort<Key>(entries.get(), others.get(), args.n);
    for (std::int64_t i = 0; i < args.n; ++i) {
      const std::int64_t index = index_of(sorted[i]);
      values[i] = in[index];
      indices[i] = index;
    }
    in += args.n;
    values += args.n;
    indices += args.n;
  }
  return {};
}

template <class Key>
Status sort_implementation(const Params& params, const HostLaunch& on) {
  const auto& args = params.as<SortArgs>();
  const auto count = static_cast<std::size_t>(args.rows * args.n);
  const Key* in = on.at(static_cast<const Key*>(args.in), count);
  if (in == nullptr) return on.fault();
  Key* values = on.at(static_cast<Key*>(args.values), count);
  if (values == nullptr) return on.fault();
  std::int64_t* indices = on.at(args.indices, count);
  if (indices == nullptr) return on.fault();
  return host::try_in_pieces(
      on, args.rows, host::least_steps(args.n), [&](std::int64_t first, std::int64_t last) {
        const std::int64_t at = first * args.n;
        const std::int64_t rows = last - first;
        if constexpr (sizeof(Key) <= 4)
          if (args.n <= Packed::kMax)
            return sort_items<Key, Packed>(args, in + at, values + at, indices + at, rows);
        return sort_items<Key, Entry<Key>>(args, in + at, values + at, indices + at, rows);
      });
}

/// The unsigned number as wide as T.
template <class T>
using KeyOf = std::conditional_t<
    sizeof(T) == 1, std::uint8_t,
    std::conditional_t<sizeof(T) == 2, std::uint16_t,
                       std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>>>;

template <class T>
constexpr driver::HostImplementation topk_implementation_of() {
  if constexpr (!contains(dtypes::real_or_bool, dtype_of<T>))
    return nullptr;
  else
    return &topk_implementation<KeyOf<T>>;
}
template <class T>
constexpr driver::HostImplementation sort_implementation_of() {
  if constexpr (!contains(dtypes::real_or_bool, dtype_of<T>))
    return nullptr;
  else
    return &sort_implementation<KeyOf<T>>;
}

constinit driver::Kernel topk_kernels[] = {
#define EMBER_DTYPE(enumerator, type, name, legacy) \
  {"topk." name, topk_implementation_of<type>(), nullptr},
    EMBER_FOR_EACH_DTYPE(EMBER_DTYPE)
#undef EMBER_DTYPE
};
constinit driver::Kernel sort_kernels[] = {
#define EMBER_DTYPE(enumerator, type, name, legacy) \
  {"sort." name, sort_implementation_of<type>(), nullptr},
    EMBER_FOR_EACH_DTYPE(EMBER_DTYPE)
#undef EMBER_DTYPE
};
const driver::kernels::Table topk_table(topk_kernels, driver::arguments<TopkArgs>());
const driver::kernels::Table sort_table(sort_kernels, driver::arguments<SortArgs>());

const driver::Kernel* kernel_of(const driver::Kernel* kernels, Dtype dtype) noexcept {
  const driver::Kernel& kernel = kernels[static_cast<int>(dtype)];
  return kernel.host == nullptr ? nullptr : &kernel;
}

}  // namespace

const driver::Kernel* topk_kernel(Dtype dtype) noexcept { return kernel_of(topk_kernels, dtype); }
const driver::Kernel* sort_kernel(Dtype dtype) noexcept { return kernel_of(sort_kernels, dtype); }

}  // namespace ember::inline v0::ops
