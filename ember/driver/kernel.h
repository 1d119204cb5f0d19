// A piece of work for a stream, with one implementation per kind of machine.
//
// Everything that a stream does beside copies and fills is a kernel: functions of this library and
// of its users, compiled code, plans and calls of other libraries. So all of it is named in errors,
// seen by observers, and can be captured.
//
// What a launch takes along (a capture keeps it, a replay does not ask again):
//
//  - the arguments, byte by byte (Params);
//  - the context, which it shares in owning.
//
// Arguments may hold device addresses; what lies there is read when the work is done. They must not
// point to host memory that is not pinned, unless the context owns it: an implementation on a
// simulated device runs later, and again in every replay. A CUDA implementation may read its
// context during the call only, and passes on by value what the work needs of it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "ember/base/export.h"
#include "ember/base/ref.h"
#include "ember/base/status.h"
#include "ember/base/team.h"
#include "ember/driver/arguments.h"

struct CUstream_st;  // what a cudaStream_t and a CUstream point to; no CUDA header is needed here

namespace ember::inline v0::driver {

// ---- Names
// -------------------------------------------------------------------------------------

/// The name of a kernel: shown in errors, observers and timelines, some of which come long after
/// the launch. So its text lives as long as the program: a literal, or interned.
class Name {
 public:
  /// No name; launching a kernel without one is refused.
  constexpr Name() noexcept = default;
  /// A literal, at compile time. Anything that may change or go does not compile.
  template <std::size_t N>
  requires(N > 1) consteval Name(const char (&literal)[N]) : text_(literal) {
    // Reading it here is what refuses arrays that can be written to.
    if (literal[N - 1] != '\0') a_name_has_to_end_with_a_zero();
  }
  /// Text that is known at run time: as a name that stays until the process ends. The same text
  /// gives the same name, so that what this takes is bounded by the number of different names.
  /// A text ends at its first zero; the empty one gives no name. Thread-safe, without a lock.
  EMBER_API static Name intern(std::string_view text);

  /// Never null: "" without a name.
  constexpr const char* c_str() const noexcept { return text_; }
  constexpr explicit operator bool() const noexcept { return *text_ != '\0'; }

 private:
  static void a_name_has_to_end_with_a_zero();  // no constant expression calls it

  const char* text_ = "";
};

// ---- Arguments
// ---------------------------------------------------------------------------------

/// What can be the arguments of a kernel: they are copied byte by byte, and limited to 4 KiB as in
/// CUDA. Larger data belongs in device memory, or in the kernel's context.
template <class T>
concept KernelArguments = std::is_trivially_copyable_v<T> && sizeof(T) <= 4096 &&
                          alignof(T) <= alignof(std::max_align_t);

/// A view of the arguments of one launch. The driver copies them once, to where it keeps them until
/// the work is done; on the way there nothing else is copied.
class Params {
 public:
  static constexpr std::size_t kCapacity = 4096;

  /// No arguments.
  constexpr Params() noexcept = default;
  /// The arguments must live until the launch returns.
  template <KernelArguments T>
  explicit Params(const T& arguments) noexcept
      : data_(&arguments), size_(sizeof(T)), addresses_(layout::addresses_in<T>()) {
    static_assert(layout::without_gaps<T>(),
                  "a byte that belongs to no field: add one, set to zero");
  }
  /// `size` bytes, aligned as any object.
  Params(const void* data, std::size_t size, AddressPlaces addresses = {}) noexcept
      : data_(data), size_(size), addresses_(addresses) {}

  /// The struct that went in. T must be the type that the launch was given.
  template <class T>
  const T& as() const noexcept {
    return *static_cast<const T*>(data_);
  }
  const void* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return size_; }
  /// Which of the words are addresses; known of types that state their layout (EMBER_ARGUMENTS).
  /// What tells one from a number that is the same by chance, where work is given other memory.
  AddressPlaces addresses() const noexcept { return addresses_; }

 private:
  const void* data_ = nullptr;
  std::size_t size_ = 0;
  AddressPlaces addresses_;
};

// ---- Contexts
// ----------------------------------------------------------------------------------

/// What a kernel has besides its arguments: loaded code, a plan, a communicator, a table. Derive
/// from it, and read it in an implementation with `on.context<T>()`.
///
/// A launch shares in owning it until the implementation has returned: on a real device that is
/// when the launch returns, on a simulated one when the work was done or dropped (by a fault, a
/// reset or the end of the process; at that end it is not destroyed). So the last owner may be a
/// thread of the driver's: a destructor must not wait for a device. What work still in progress on
/// a real device needs (loaded code, a plan's memory) is not the driver's to know: who destroys a
/// context with such things keeps it until that work is done, by an event recorded behind the last
/// launch.
class EMBER_API Context : public RefCounted {
 public:
  virtual ~Context() = default;
};

// ---- Where implementations run
// -----------------------------------------------------------------

/// Where the host implementation of a kernel runs: on the CPU itself, or on a simulated device,
/// whose memory lies at addresses that only its own work may touch.
class EMBER_API HostLaunch {
 public:
  /// The place at which this kernel can read, or write, `count` elements that the caller knows as
  /// `pointer`: `at<const T>` is for reading, `at<T>` for writing and reading. On a simulated
  /// device it is checked like an access on hardware: memory that is not allocated, belongs to a
  /// device without peer access, or is host memory that is not pinned makes the kernel fault with
  /// Code::illegal_address, and the kernel must return that at once:
  /// `T* p = on.at(args.data, args.n); if (p == nullptr) return on.fault();`
  /// Where accesses are checked (EMBER_SIM_CHECK_ACCESSES, and always where a seed decides), memory
  /// that the launch has declared in no access faults in the same way, as does writing what was
  /// declared as read. A count of zero gives a pointer that must not be used.
  template <class T>
  T* at(T* pointer, std::size_t count) const noexcept {
    using Plain = std::remove_cv_t<T>;
    // A count that overflows is larger than any allocation, and must not look like a small one.
    const std::size_t bytes = count > SIZE_MAX / sizeof(T) ? SIZE_MAX : count * sizeof(T);
    return static_cast<T*>(
        resolve(const_cast<Plain*>(pointer), {.bytes = bytes, .writes = !std::is_const_v<T>}));
  }
  /// The same for `sizes[d]` elements that lie `strides[d]` elements of `item` bytes apart in each
  /// dimension d, where none of what lies between them is touched; `pointer` and the result are the
  /// first one's. No size is zero and no stride negative.
  template <class T>
  T* at_strided(T* pointer, std::span<const std::int64_t> sizes,
                std::span<const std::int64_t> strides,
                std::size_t item = sizeof(T)) const noexcept {
    using Plain = std::remove_cv_t<T>;
    std::int64_t last = 0;
    for (std::size_t d = 0; d < sizes.size(); ++d) last += (sizes[d] - 1) * strides[d];
    return static_cast<T*>(
        resolve(const_cast<Plain*>(pointer), {.bytes = (static_cast<std::size_t>(last) + 1) * item,
                                              .writes = !std::is_const_v<T>,
                                              .item = item,
                                              .sizes = sizes,
                                              .strides = strides}));
  }
  /// Why the last at() gave null.
  virtual Status fault() const { return Status(); }
  /// The simulated device, or -1 on the CPU.
  int device() const noexcept { return device_; }
  /// The kernel's context, which must have one, of this type.
  template <class T>
  const T& context() const noexcept {
    return static_cast<const T&>(*context_);
  }
  /// Whether in_pieces() would use several threads for so much work.
  bool has_pieces(std::int64_t count, std::int64_t least) const noexcept {
    return threads_ > 1 && count >= 2 * least;
  }
  /// Calls `body(first, last)` for ranges that together are [0, count), none with fewer than
  /// `least`, unless the count is smaller: on the CPU on several threads at once, on a simulated
  /// device, where streams work beside each other, one call for everything. So `body` must not
  /// throw, and results must not depend on where it is cut.
  template <class Body>
  void in_pieces(std::int64_t count, std::int64_t least, const Body& body) const noexcept {
    if (!has_pieces(count, least)) return body(0, count);
    constexpr std::int64_t kForEach = 4;  // so that a thread that is late does not keep all waiting
    const std::int64_t pieces = std::min(count / least, kForEach * threads_);
    const std::int64_t size = count / pieces;
    const std::int64_t longer = count % pieces;  // ranges with one more
    share(pieces, threads_, [&](std::int64_t i) {
      const std::int64_t first = i * size + std::min(i, longer);
      body(first, first + size + (i < longer ? 1 : 0));
    });
  }

 protected:
  /// What a kernel asks for: from the first to the last byte that it may touch and, with `sizes`,
  /// which elements of these.
  struct Touch {
    std::size_t bytes;
    bool writes;
    std::size_t item = 0;
    std::span<const std::int64_t> sizes = {}, strides = {};
  };
  explicit HostLaunch(int device, const Context* context = nullptr, int threads = 1) noexcept
      : device_(device), threads_(threads), context_(context) {}
  ~HostLaunch() = default;
  // For launches that stand before another one.
  static void* resolve_on(const HostLaunch& launch, void* pointer, const Touch& touch) noexcept {
    return launch.resolve(pointer, touch);
  }

 private:
  virtual void* resolve(void* pointer, const Touch& touch) const noexcept = 0;
  int device_;
  int threads_;
  const Context* context_;
};

/// Where the CUDA implementation of a kernel puts its work, and returns without waiting. The device
/// is current. It is a stream, which may be captured into a graph: kernels of this library
/// reach it through start<>() (driver/cuda/launch.h) alone.
class CudaLaunch {
 public:
  CudaLaunch(CUstream_st* stream, int device, const Context* context) noexcept
      : stream_(stream), context_(context), device_(device) {}

  /// A stream for what takes nothing else: `<<<>>>` and calls of libraries. It converts to
  /// cudaStream_t. What goes there is part of this launch.
  CUstream_st* stream() const noexcept { return stream_; }
  int device() const noexcept { return device_; }
  /// The kernel's context, which must have one, of this type.
  template <class T>
  const T& context() const noexcept {
    return static_cast<const T&>(*context_);
  }

 private:
  CUstream_st* stream_;
  const Context* context_;
  int device_;
};

// ---- Kernels
// -----------------------------------------------------------------------------------

/// What an implementation asks for before it is launched.
struct KernelNeeds {
  std::size_t scratch = 0;  ///< bytes of memory on its device to work in, contents undefined
};

/// A function, and what it needs. Both must not throw.
template <class Launch>
struct Implementation {
  using Run = Status (*)(const Params&, const Launch&);
  /// Looks at the arguments only. A failure says why they cannot be launched here.
  using Needs = Status (*)(const Params&, KernelNeeds&);

  constexpr Implementation(std::nullptr_t = nullptr) noexcept {}
  template <class F>
  requires std::is_convertible_v<F, Run>
  constexpr Implementation(F function, Needs asks = nullptr) noexcept
      : run(function), needs(asks) {}

  friend constexpr bool operator==(const Implementation& a, std::nullptr_t) noexcept {
    return a.run == nullptr;
  }
  Status ask(const Params& params, KernelNeeds& out) const {
    return needs == nullptr ? Status() : needs(params, out);
  }

  Run run = nullptr;
  Needs needs = nullptr;  ///< null: nothing
};

/// Runs on a worker of a simulated device, or on the CPU.
using HostImplementation = Implementation<HostLaunch>;
/// Runs within the launch, and enqueues on a real device.
using CudaImplementation = Implementation<CudaLaunch>;

/// A kernel. A launch copies what it needs of it. A null implementation means that the kernel does
/// not exist on that kind of machine; launching it there is refused with Code::not_supported.
struct Kernel {
  Name name;
  HostImplementation host = nullptr;
  CudaImplementation cuda = nullptr;
  Ref<const Context> context = {};
};

/// What a launch answers to more than Params::kCapacity bytes.
inline Status too_large(const Params& params) {
  return Status(Code::invalid_value, "the arguments have " + std::to_string(params.size()) +
                                         " bytes, expected at most " +
                                         std::to_string(Params::kCapacity));
}

}  // namespace ember::inline v0::driver
