// Complex transforms along one dimension, by the plans of ducc0: which of them are computed
// together, how their numbers come into vectors and out of them, and long ones as tables of short
// ones. A part of ducc.cpp, which is compiled twice, each time in a namespace of its own
// (DUCC0_NAMESPACE).
#pragma once

#include <ducc0/fft/fft.h>
#include <ducc0/fft/fftnd_impl.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#include "ember/base/host_memory.h"
#include "ember/fft/host/variants.h"

namespace DUCC0_NAMESPACE::detail_fft {
namespace {

// In place of the template of the same name, which makes a plan anew each time.
#define EMBER_KEPT_PLAN(Plan) \
  template <>                 \
  std::shared_ptr<Plan> get_plan<Plan>(std::size_t length, bool vectorize);
EMBER_KEPT_PLAN(pocketfft_c<float>)
EMBER_KEPT_PLAN(pocketfft_c<double>)
EMBER_KEPT_PLAN(pocketfft_r<float>)
EMBER_KEPT_PLAN(pocketfft_r<double>)
EMBER_KEPT_PLAN(Long1dPlan<float>)
EMBER_KEPT_PLAN(Long1dPlan<double>)
#undef EMBER_KEPT_PLAN

// ---- From rows to vectors and back
//
// A vector holds a number of each of several rows: their real parts, then their imaginary ones.
// ducc0 moves them one by one, which takes as long as the transform.

template <std::size_t Lanes, class T>
[[gnu::always_inline]] inline void split(const Cmplx<T>* from, T* to) {
  [&]<int... i>(std::integer_sequence<int, i...>) {
    using Vector __attribute__((vector_size(Lanes * sizeof(T)))) = T;
    Vector a, b;
    std::memcpy(&a, from, sizeof a);
    std::memcpy(&b, from + Lanes / 2, sizeof b);
    const Vector real = __builtin_shufflevector(a, b, 2 * i...);
    const Vector imaginary = __builtin_shufflevector(a, b, (2 * i + 1)...);
    std::memcpy(to, &real, sizeof real);
    std::memcpy(to + Lanes, &imaginary, sizeof imaginary);
  }
  (std::make_integer_sequence<int, Lanes>());
}

template <std::size_t Lanes, class T>
[[gnu::always_inline]] inline void join(const T* from, Cmplx<T>* to) {
  constexpr int kLanes = Lanes;
  [&]<int... i>(std::integer_sequence<int, i...>) {
    using Vector __attribute__((vector_size(Lanes * sizeof(T)))) = T;
    Vector real, imaginary;
    std::memcpy(&real, from, sizeof real);
    std::memcpy(&imaginary, from + Lanes, sizeof imaginary);
    const Vector a = __builtin_shufflevector(real, imaginary, (i / 2 + i % 2 * kLanes)...);
    const Vector b =
        __builtin_shufflevector(real, imaginary, ((i + kLanes) / 2 + i % 2 * kLanes)...);
    std::memcpy(static_cast<void*>(to), &a, sizeof a);
    std::memcpy(static_cast<void*>(to + Lanes / 2), &b, sizeof b);
  }
  (std::make_integer_sequence<int, Lanes>());
}

/// Four or two numbers, as what is moved.
using Words __attribute__((vector_size(32))) = double;
template <class T>
inline constexpr std::size_t kTile = sizeof(Words) / sizeof(Cmplx<T>);

/// `to(k)[l] = from(l)[k]` for k and l below kTile<T>.
template <class T, class From, class To>
[[gnu::always_inline]] inline void transpose(const From& from, const To& to) {
  const auto load = [](const Cmplx<T>* numbers, Words* words) {
    std::memcpy(words, numbers, sizeof *words);
  };
  const auto store = [](const Words& words, Cmplx<T>* numbers) {
    std::memcpy(static_cast<void*>(numbers), &words, sizeof words);
  };
  Words a, b;
  load(from(0), &a);
  load(from(1), &b);
  if constexpr (kTile<T> == 2) {
    store(__builtin_shufflevector(a, b, 0, 1, 4, 5), to(0));
    store(__builtin_shufflevector(a, b, 2, 3, 6, 7), to(1));
  } else {
    Words c, d;
    load(from(2), &c);
    load(from(3), &d);
    const Words even_ab = __builtin_shufflevector(a, b, 0, 4, 2, 6);
    const Words odd_ab = __builtin_shufflevector(a, b, 1, 5, 3, 7);
    const Words even_cd = __builtin_shufflevector(c, d, 0, 4, 2, 6);
    const Words odd_cd = __builtin_shufflevector(c, d, 1, 5, 3, 7);
    store(__builtin_shufflevector(even_ab, even_cd, 0, 1, 4, 5), to(0));
    store(__builtin_shufflevector(odd_ab, odd_cd, 0, 1, 4, 5), to(1));
    store(__builtin_shufflevector(even_ab, even_cd, 2, 3, 6, 7), to(2));
    store(__builtin_shufflevector(odd_ab, odd_cd, 2, 3, 6, 7), to(3));
  }
}

inline constexpr std::size_t kMost = 32;  ///< rows at once

/// Rows of `length` numbers, `step` apart, of a tensor.
template <class Number>
struct Group {
  Number* rows[kMost];
  std::ptrdiff_t step;
  std::size_t length;
  bool beside = true;  ///< rows begin at numbers that follow each other

  template <class Place>
  Group(std::size_t count, std::ptrdiff_t between, std::size_t numbers, const Place& place)
      : step(between), length(numbers) {
    for (std::size_t row = 0; row < count; ++row) {
      rows[row] = place(row);
      beside = beside && rows[row] == rows[0] + row;
    }
  }
  Number& at(std::size_t row, std::size_t column) const {
    return rows[row][static_cast<std::ptrdiff_t>(column) * step];
  }
};

/// Asks for the numbers of some columns of rows that are beside each other. The processor does not
/// foresee them where each is in another page.
enum Purpose { kToRead, kToWrite };
template <std::size_t Lanes, Purpose purpose, class Number>
void prefetch(const Group<Number>& rows, std::size_t vectors, std::size_t first) {
  constexpr std::size_t kLine = 64 / sizeof(Number);
  const std::size_t end = std::min(first + sizeof(Words) / sizeof(Number), rows.length);
  for (std::size_t k = first; k < end; ++k)
    for (std::size_t row = 0; row < vectors * Lanes; row += kLine)
      __builtin_prefetch(&rows.at(row, k), purpose, 2);
}
inline constexpr std::size_t kAhead = 32;  ///< columns
template <class T>
constexpr std::ptrdiff_t kFar = 1024 / sizeof(Cmplx<T>);  ///< from column to column

/// Where vectors are short, their numbers may as well come one by one.
template <std::size_t Lanes, class T>
constexpr bool one_by_one = Lanes * sizeof(T) < sizeof(Words);

/// From the rows of a group to `vectors` arrays of vectors, which begin `apart` vectors from each
/// other.
template <std::size_t Lanes, class T>
void copy_in(const Group<const Cmplx<T>>& from, std::size_t vectors, T* to, std::size_t apart) {
  if constexpr (one_by_one<Lanes, T>) {
    for (std::size_t k = 0; k < from.length; ++k) {
      for (std::size_t v = 0; v < vectors; ++v) {
        T* const vector = to + 2 * Lanes * (v * apart + k);
        for (std::size_t lane = 0; lane < Lanes; ++lane) {
          const Cmplx<T>& number = from.at(v * Lanes + lane, k);
          vector[lane] = number.r;
          vector[Lanes + lane] = number.i;
        }
      }
    }
  } else {
    const bool far = from.beside && std::abs(from.step) >= kFar<T>;
    for (std::size_t first = 0; first < from.length; first += kTile<T>) {
      if (far) prefetch<Lanes, kToRead>(from, vectors, first + kAhead);
      const std::size_t columns = std::min(kTile<T>, from.length - first);
      for (std::size_t v = 0; v < vectors; ++v) {
        const std::size_t row = v * Lanes;
        T* const vector = to + 2 * Lanes * (v * apart + first);
        if (from.beside) {
          for (std::size_t k = 0; k < columns; ++k)
            split<Lanes>(&from.at(row, first + k), vector + 2 * Lanes * k);
          continue;
        }
        Cmplx<T> tile[kTile<T>][Lanes];
        if (from.step == 1 && columns == kTile<T>) {
          for (std::size_t lane = 0; lane < Lanes; lane += kTile<T>)
            transpose<T>([&](std::size_t l) { return &from.at(row + lane + l, first); },
                         [&](std::size_t k) { return tile[k] + lane; });
        } else {
          for (std::size_t k = 0; k < columns; ++k)
            for (std::size_t lane = 0; lane < Lanes; ++lane)
              tile[k][lane] = from.at(row + lane, first + k);
        }
        for (std::size_t k = 0; k < columns; ++k) split<Lanes>(tile[k], vector + 2 * Lanes * k);
      }
    }
  }
}

template <std::size_t Lanes, class T>
void copy_out(const T* from, std::size_t apart, std::size_t vectors, const Group<Cmplx<T>>& to) {
  if constexpr (one_by_one<Lanes, T>) {
    for (std::size_t k = 0; k < to.length; ++k) {
      for (std::size_t v = 0; v < vectors; ++v) {
        const T* const vector = from + 2 * Lanes * (v * apart + k);
        for (std::size_t lane = 0; lane < Lanes; ++lane)
          to.at(v * Lanes + lane, k) = {vector[lane], vector[Lanes + lane]};
      }
    }
  } else {
    const bool far = to.beside && std::abs(to.step) >= kFar<T>;
    for (std::size_t first = 0; first < to.length; first += kTile<T>) {
      if (far) prefetch<Lanes, kToWrite>(to, vectors, first + kAhead);
      const std::size_t columns = std::min(kTile<T>, to.length - first);
      for (std::size_t v = 0; v < vectors; ++v) {
        const std::size_t row = v * Lanes;
        const T* const vector = from + 2 * Lanes * (v * apart + first);
        if (to.beside) {
          for (std::size_t k = 0; k < columns; ++k)
            join<Lanes>(vector + 2 * Lanes * k, &to.at(row, first + k));
          continue;
        }
        Cmplx<T> tile[kTile<T>][Lanes];
        for (std::size_t k = 0; k < columns; ++k) join<Lanes>(vector + 2 * Lanes * k, tile[k]);
        if (to.step == 1 && columns == kTile<T>) {
          for (std::size_t lane = 0; lane < Lanes; lane += kTile<T>)
            transpose<T>([&](std::size_t k) { return tile[k] + lane; },
                         [&](std::size_t l) { return &to.at(row + lane + l, first); });
        } else {
          for (std::size_t k = 0; k < columns; ++k)
            for (std::size_t lane = 0; lane < Lanes; ++lane)
              to.at(row + lane, first + k) = tile[k][lane];
        }
      }
    }
  }
}

// ---- Rows

/// Work that several threads share has this many parts for each, so that one that is late does not
/// keep all waiting.
inline constexpr std::size_t kPartsForEach = 4;

/// Up to this size transforms are computed together, one in each lane of a vector. ducc0 draws the
/// line at 1 MiB, the size of a fast cache; together they still take half to two thirds of the time
/// as long as most of them fits into the last one (32 MiB where this was measured), which threads
/// share.
inline constexpr std::size_t kTogether = std::size_t{48} << 20;  // of all threads
inline constexpr std::size_t kAlways = std::size_t{1} << 20;     // of each

/// After the transform nothing is left to do.
struct Unturned {
  template <class T, std::size_t Lanes>
  void operator()(T*, std::size_t, const std::size_t (&)[Lanes]) const {}
};

/// The complex transforms along one dimension, of which each part computes its own. What comes out
/// of them is given to `after`, with the offset in `out` of each row.
template <class T, class After = Unturned>
class Rows {
 public:
  using Element = Cmplx<T>;
  using Input = cfmav<Element>;
  using Output = vfmav<Element>;
  static constexpr std::size_t kLanes = native_simd<T>::size();

  Rows(const Input& in, const Output& out, std::size_t axis, bool forward, T factor,
       std::size_t parts, After after = {})
      : in_(in),
        out_(out),
        axis_(axis),
        length_(in.shape(axis)),
        forward_(forward),
        factor_(factor),
        parts_(parts),
        after_(std::move(after)),
        plan_(get_plan<pocketfft_c<T>>(length_, in.ndim() == 1)) {
    const std::size_t room =
        std::max(kTogether / std::max(parts / kPartsForEach, std::size_t{1}), kAlways);
    while (lanes_ > 1 && lanes_ * bytes() > room) lanes_ /= 2;
    if (lanes_ == 2 && !has_vectors<2>) lanes_ = 1;
    const bool adjacent = in.stride(axis) == 1 && out.stride(axis) == 1;
    at_once_ = lanes_;
    // Elements of one line of the cache, or of one of its sets, are better fetched together, and
    // those of one page.
    if (is_critical(in.stride(axis)) || is_critical(out.stride(axis)))
      at_once_ = (lanes_ > 1 ? 4 : 2) * kLine / sizeof(Element);
    else if (lanes_ == 1 && !adjacent)
      at_once_ = kLine / sizeof(Element);
    in_place_ = adjacent && at_once_ == 1 && std::is_same_v<After, Unturned>;
  }

  void compute() const {
    const std::size_t threads_of_one = in_.ndim() == 1 ? parts_ : 1;
    execParallel(parts(), [&](Scheduler& part) {
      Iterator rows(in_, out_, axis_, part.num_threads(), part.thread_num());
      TmpStorage<Element, T> memory(in_.size() / length_, length_, plan_->bufsize(),
                                    (at_once_ + kLanes - 1) / kLanes, in_place_);
      in_lanes<kLanes>(rows, memory, threads_of_one);
    });
  }

 private:
  static constexpr std::size_t kLine = 64;  ///< bytes of a cache's line
  using Iterator = multi_iter<kMost>;

  /// In vectors of less than 16 bytes transforms take longer than one by one.
  template <std::size_t Lanes>
  static constexpr bool has_vectors = Lanes * sizeof(T) >= 16 && simd_exists<T, Lanes>;

  /// From element to element it is about as far as to a line that the cache has no other place for.
  static bool is_critical(std::ptrdiff_t stride) {
    return stride * static_cast<std::ptrdiff_t>(sizeof(Element)) % 2048 == 0;
  }
  /// Of one row: itself, its copy and what the plan wants.
  std::size_t bytes() const { return sizeof(Element) * (2 * length_ + plan_->bufsize()); }

  /// Parts of less than a vector of rows take about as long as those of one: there are more of them
  /// than threads only if each has one, and as many as threads while each has half of one.
  std::size_t parts() const {
    constexpr std::size_t kLeast = 32'768;  // numbers that are worth the threads
    if (parts_ == 1 || in_.size() <= kLeast) return 1;
    const std::size_t vectors = in_.size() / length_ / kLanes;
    const std::size_t halves = 2 * in_.size() / length_ / kLanes;
    const std::size_t threads = std::min(parts_ / kPartsForEach, halves);
    return std::clamp<std::size_t>(std::max(vectors, threads), 1, parts_);
  }

  template <std::size_t Lanes>
  void in_lanes(Iterator& rows, TmpStorage<Element, T>& memory, std::size_t threads) const {
    if constexpr (Lanes == 1) {
      TmpStorage2<Element, Element, T> own(memory);
      if (lanes_ == 1) in_groups<1>(rows, own, at_once_, threads);
      while (rows.remaining() > 0) {
        rows.advance(1);
        if (in_place_)
          ExecC2C{forward_}(rows, in_, out_, own, *plan_, factor_, threads, true);
        else
          transform<1>(rows, own, 1, threads);
      }
    } else {
      if constexpr (has_vectors<Lanes>) {
        TmpStorage2<add_vec_t<Element, Lanes>, Element, T> own(memory);
        if (lanes_ == Lanes) in_groups<Lanes>(rows, own, at_once_ / Lanes, threads);
        while (lanes_ >= Lanes && rows.remaining() >= Lanes) {
          rows.advance(Lanes);
          transform<Lanes>(rows, own, 1, threads);
        }
      }
      in_lanes<Lanes / 2>(rows, memory, threads);
    }
  }

  template <std::size_t Lanes, class Memory>
  void in_groups(Iterator& rows, Memory& own, std::size_t vectors, std::size_t threads) const {
    while (vectors > 1 && rows.remaining() >= at_once_) {
      rows.advance(at_once_);
      transform<Lanes>(rows, own, vectors, threads);
    }
  }

  /// The rows at which the iterator is.
  template <std::size_t Lanes, class Memory>
  DUCC0_NOINLINE void transform(const Iterator& at, Memory& own, std::size_t vectors,
                                std::size_t threads) const {
    using Vector = typename Memory::datatype;
    static_assert(sizeof(Vector) == Lanes * sizeof(Element));
    Vector* const spare = own.transformBuf();
    Vector* const data = own.dataBuf();
    const std::size_t apart = own.data_stride();
    const Group<const Element> from(vectors * Lanes, in_.stride(axis_), length_,
                                    [&](std::size_t row) { return in_.data() + at.iofs(row, 0); });
    const Group<Element> to(vectors * Lanes, out_.stride(axis_), length_,
                            [&](std::size_t row) { return out_.data() + at.oofs(row, 0); });
    copy_in<Lanes>(from, vectors, reinterpret_cast<T*>(data), apart);
    Vector* result = data;
    for (std::size_t v = 0; v < vectors; ++v) {
      if (vectors == 1)
        result = plan_->exec(data, spare, factor_, forward_, threads);
      else
        plan_->exec_copyback(data + v * apart, spare, factor_, forward_, threads);
      std::size_t offsets[Lanes];
      for (std::size_t lane = 0; lane < Lanes; ++lane)
        offsets[lane] = static_cast<std::size_t>(at.oofs(v * Lanes + lane, 0));
      after_(reinterpret_cast<T*>(result + v * apart), length_, offsets);
    }
    copy_out<Lanes>(reinterpret_cast<const T*>(result), apart, vectors, to);
  }

  const Input& in_;
  const Output& out_;
  const std::size_t axis_, length_;
  const bool forward_;
  const T factor_;
  const std::size_t parts_;
  const After after_;
  const std::shared_ptr<pocketfft_c<T>> plan_;
  std::size_t lanes_ = kLanes;
  std::size_t at_once_ = 1;
  bool in_place_ = false;
};

// ---- Long signals
//
// One of n = rows * columns numbers is a table that lies row by row. Its columns are transformed,
// each number is turned, and then the rows are: what is computed at once fits the caches, unlike
// the signal. ducc0 does the same, but turns in a pass of its own, by roots that it looks up one by
// one.

/// Multiplies what came of a column by exp(-+ 2 pi i row column / n).
class Turned {
 public:
  Turned(std::size_t n, bool forward)
      : roots_(get_plan<Long1dPlan<double>>(n, false)), sign_(forward ? -1 : 1) {}

  template <class T, std::size_t Lanes>
  void operator()(T* numbers, std::size_t length, const std::size_t (&columns)[Lanes]) const {
    constexpr std::size_t kWidth = std::min(Lanes, sizeof(Words) / sizeof(double));
    for (std::size_t lane = 0; lane < Lanes; lane += kWidth)
      turn<kWidth>(numbers + lane, length, columns + lane, Lanes);
  }

 private:
  /// A root is made of the one before it, in float64, and anew after this many.
  template <class T>
  static constexpr std::size_t kSteps = sizeof(T) == sizeof(float) ? 32 : 4;

  template <std::size_t Width, class T, class Root = double>
  void turn(T* numbers, std::size_t length, const std::size_t* columns, std::size_t lanes) const {
    using Roots __attribute__((vector_size(Width * sizeof(Root)))) = Root;
    using Vector __attribute__((vector_size(Width * sizeof(T)))) = T;
    const auto look_up = [&](std::size_t row, Roots& r, Roots& i) {
      for (std::size_t lane = 0; lane < Width; ++lane) {
        const std::complex<double> root = (*roots_)[columns[lane] * row];
        r[lane] = root.real();
        i[lane] = sign_ * root.imag();
      }
    };
    Roots step_r, step_i, r, i;
    look_up(1, step_r, step_i);
    for (std::size_t row = 0; row < length; ++row, numbers += 2 * lanes) {
      if (row % kSteps<T> == 0) look_up(row, r, i);
      const auto by_r = __builtin_convertvector(r, Vector);
      const auto by_i = __builtin_convertvector(i, Vector);
      Vector x_r, x_i;
      std::memcpy(&x_r, numbers, sizeof x_r);
      std::memcpy(&x_i, numbers + lanes, sizeof x_i);
      const Vector turned_r = x_r * by_r - x_i * by_i;
      const Vector turned_i = x_r * by_i + x_i * by_r;
      std::memcpy(numbers, &turned_r, sizeof turned_r);
      std::memcpy(numbers + lanes, &turned_i, sizeof turned_i);
      const Roots next = r * step_r - i * step_i;
      i = r * step_i + i * step_r;
      r = next;
    }
  }

  const std::shared_ptr<Long1dPlan<double>> roots_;
  const double sign_;
};

/// Memory of one transform that the next one of a batch finds again.
template <class T>
class Scratch {
 public:
  Cmplx<T>* of(std::size_t count) {
    if (count <= count_) return memory_.get();
    memory_.reset();
    count_ = 0;
    void* const memory = ember::allocate_host_memory(kAlignment, count * sizeof(Cmplx<T>));
    if (memory == nullptr) throw std::bad_alloc();
    memory_.reset(static_cast<Cmplx<T>*>(memory));
    count_ = count;
    return memory_.get();
  }

 private:
  static constexpr std::size_t kAlignment = 64;
  struct Free {
    void operator()(void* memory) const { ember::free_host_memory(memory); }
  };
  std::unique_ptr<Cmplx<T>, Free> memory_;
  std::size_t count_ = 0;
};

/// The rows of the table, no more than columns: 1 if there is none of use.
inline std::size_t rows_of(std::size_t length) {
  if (length < static_cast<std::size_t>(ember::fft::host::kLong)) return 1;
  auto rows = static_cast<std::size_t>(std::sqrt(static_cast<double>(length)));
  while (length % rows != 0) --rows;
  return rows >= 16 ? rows : 1;
}

template <class T>
void transform_long(const cfmav<Cmplx<T>>& in, const vfmav<Cmplx<T>>& out, std::size_t rows,
                    bool forward, T factor, std::size_t parts, Scratch<T>& scratch) {
  const std::size_t columns = in.shape(0) / rows;
  // Rows that begin 4096 bytes from each other would be in each other's way in the caches.
  const std::size_t width =
      columns * sizeof(Cmplx<T>) % 4096 == 0 ? columns + 64 / sizeof(Cmplx<T>) : columns;
  const auto between = static_cast<std::ptrdiff_t>(width);
  const vfmav<Cmplx<T>> turned(scratch.of(rows * width), {rows, columns}, {between, 1});
  const Cmplx<T>* from = in.data();
  auto step = static_cast<std::ptrdiff_t>(columns) * in.stride(0);
  if (parts == 1 && in.stride(0) == 1) {
    // Memory that is not in the caches is read in order, which the processor does ahead of time.
    for (std::size_t row = 0; row < rows; ++row)
      std::memcpy(turned.data() + row * width, from + row * columns, columns * sizeof(Cmplx<T>));
    from = turned.data();
    step = between;
  }
  const cfmav<Cmplx<T>> table(from, {rows, columns}, {step, in.stride(0)});
  const vfmav<Cmplx<T>> result(out.data(), {rows, columns},
                               {out.stride(0), static_cast<std::ptrdiff_t>(rows) * out.stride(0)});
  Rows<T, Turned>(table, turned, 0, forward, T(1), parts, Turned(in.shape(0), forward)).compute();
  Rows<T>(turned, result, 1, forward, factor, parts).compute();
}

/// Of any tensor, along `axis`.
template <class T>
void transform_rows(const cfmav<Cmplx<T>>& in, const vfmav<Cmplx<T>>& out, std::size_t axis,
                    bool forward, T factor, std::size_t parts, Scratch<T>& scratch) {
  if (in.size() == 0) return;
  const bool single = in.ndim() == 1;
  const std::size_t rows = single ? rows_of(in.shape(0)) : 1;
  if (rows > 1)
    transform_long(in, out, rows, forward, factor, parts, scratch);
  else if (single && in.stride(0) == 1 && out.stride(0) == 1)
    ExecC2C{forward}.exec_simple(in.data(), out.data(),
                                 *get_plan<pocketfft_c<T>>(in.shape(0), true), factor, parts);
  else
    Rows<T>(in, out, axis, forward, factor, parts).compute();
}

}  // namespace
}  // namespace DUCC0_NAMESPACE::detail_fft
