// The host columns of sort and topk. Both work on pairs of a key and an index, of which no two are
// equal, so every way to put them in order gives the same result.
#include <algorithm>
#include <memory>
#include <new>

#include "ember/ops/sort_args.h"
#include "ember/ops/sort_rows.h"

namespace ember::ops {
namespace {

using driver::HostLaunch;
using driver::Params;

template <class Key>
struct Entry {
  Key key;
  std::int64_t index;
  friend bool operator<(const Entry& a, const Entry& b) {
    return a.key != b.key ? a.key < b.key : a.index < b.index;
  }
};

template <class Key>
using Entries = std::unique_ptr<Entry<Key>[]>;

template <class Key>
Entries<Key> make_entries(std::int64_t count) {
  return Entries<Key>(new (std::nothrow) Entry<Key>[static_cast<std::size_t>(count)]);
}

Status no_memory(std::int64_t count) {
  return Status(Code::out_of_memory,
                "the host has no memory to put " + std::to_string(count) + " elements in order");
}

template <class Key>
Status topk_column(const Params& params, const HostLaunch& on) {
  const auto& args = params.as<TopkArgs>();
  const auto outputs = static_cast<std::size_t>(args.rows * args.k);
  const Key* in =
      on.at(static_cast<const Key*>(args.in), static_cast<std::size_t>(args.rows * args.n));
  if (in == nullptr) return on.fault();
  Key* values = on.at(static_cast<Key*>(args.values), outputs);
  if (values == nullptr) return on.fault();
  std::int64_t* indices = on.at(args.indices, outputs);
  if (indices == nullptr) return on.fault();
  const Entries<Key> best = make_entries<Key>(args.k);
  if (best == nullptr) return no_memory(args.k);
  Entry<Key>* const end = best.get() + args.k;
  for (std::int64_t row = 0; row < args.rows; ++row, in += args.n) {
    for (std::int64_t i = 0; i < args.k; ++i)
      best[static_cast<std::size_t>(i)] = {args.order.key(in[i]), i};
    // The worst of the best is in front.
    std::make_heap(best.get(), end);
    for (std::int64_t i = args.k; i < args.n; ++i) {
      const Key key = args.order.key(in[i]);
      if (!(key < best[0].key)) continue;  // with equal keys, the earlier one stays
      std::pop_heap(best.get(), end);
      end[-1] = {key, i};
      std::push_heap(best.get(), end);
    }
    std::sort_heap(best.get(), end);
    for (const Entry<Key>* entry = best.get(); entry != end; ++entry) {
      *values++ = in[entry->index];
      *indices++ = entry->index;
    }
  }
  return {};
}

/// By eight bits at a time, from the lowest; what comes out is in the returned one of the two.
template <class Key>
Entry<Key>* radix_sort(Entry<Key>* from, Entry<Key>* to, std::int64_t n) {
  for (unsigned shift = 0; shift < 8 * sizeof(Key); shift += 8) {
    const auto digit = [&](const Entry<Key>& entry) {
      return static_cast<std::size_t>((entry.key >> shift) & 255U);
    };
    std::int64_t places[kDigits] = {};
    for (std::int64_t i = 0; i < n; ++i) ++places[digit(from[i])];
    if (places[digit(from[0])] == n) continue;
    std::int64_t next = 0;
    for (std::int64_t& place : places) {
      const std::int64_t count = place;
      place = next;
      next += count;
    }
    for (std::int64_t i = 0; i < n; ++i) to[places[digit(from[i])]++] = from[i];
    std::swap(from, to);
  }
  return from;
}

template <class Key>
Status sort_column(const Params& params, const HostLaunch& on) {
  constexpr std::int64_t kFew = 512;  // where counting digits does not pay
  const auto& args = params.as<SortArgs>();
  const auto count = static_cast<std::size_t>(args.rows * args.n);
  const Key* in = on.at(static_cast<const Key*>(args.in), count);
  if (in == nullptr) return on.fault();
  Key* values = on.at(static_cast<Key*>(args.values), count);
  if (values == nullptr) return on.fault();
  std::int64_t* indices = on.at(args.indices, count);
  if (indices == nullptr) return on.fault();
  const bool few = args.n < kFew;
  const Entries<Key> entries = make_entries<Key>(args.n);
  const Entries<Key> others = few ? nullptr : make_entries<Key>(args.n);
  if (entries == nullptr || (!few && others == nullptr)) return no_memory(args.n);
  for (std::int64_t row = 0; row < args.rows; ++row) {
    for (std::int64_t i = 0; i < args.n; ++i)
      entries[static_cast<std::size_t>(i)] = {args.order.key(in[i]), i};
    const Entry<Key>* sorted = entries.get();
    if (few)
      std::sort(entries.get(), entries.get() + args.n);
    else
      sorted = radix_sort(entries.get(), others.get(), args.n);
    for (std::int64_t i = 0; i < args.n; ++i) {
      values[i] = in[sorted[i].index];
      indices[i] = sorted[i].index;
    }
    in += args.n;
    values += args.n;
    indices += args.n;
  }
  return {};
}

/// The unsigned number as wide as T.
template <class T>
using KeyOf = std::conditional_t<
    sizeof(T) == 1, std::uint8_t,
    std::conditional_t<sizeof(T) == 2, std::uint16_t,
                       std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>>>;

template <class T>
constexpr driver::HostColumn topk_column_of() {
  if constexpr (is_complex<T>)
    return nullptr;
  else
    return &topk_column<KeyOf<T>>;
}
template <class T>
constexpr driver::HostColumn sort_column_of() {
  if constexpr (is_complex<T>)
    return nullptr;
  else
    return &sort_column<KeyOf<T>>;
}

constinit driver::Kernel topk_rows[] = {
#define EMBER_DTYPE(enumerator, type, name, legacy) {"topk." name, topk_column_of<type>(), nullptr},
    EMBER_FOR_EACH_DTYPE(EMBER_DTYPE)
#undef EMBER_DTYPE
};
constinit driver::Kernel sort_rows[] = {
#define EMBER_DTYPE(enumerator, type, name, legacy) {"sort." name, sort_column_of<type>(), nullptr},
    EMBER_FOR_EACH_DTYPE(EMBER_DTYPE)
#undef EMBER_DTYPE
};
const driver::kernels::Table topk_table(topk_rows);
const driver::kernels::Table sort_table(sort_rows);

const driver::Kernel* row_of(const driver::Kernel* rows, Dtype dtype) noexcept {
  const driver::Kernel& row = rows[static_cast<int>(dtype)];
  return row.host == nullptr ? nullptr : &row;
}

}  // namespace

const driver::Kernel* topk_kernel(Dtype dtype) noexcept { return row_of(topk_rows, dtype); }
const driver::Kernel* sort_kernel(Dtype dtype) noexcept { return row_of(sort_rows, dtype); }

}  // namespace ember::ops
