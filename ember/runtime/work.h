// Putting work on streams: kernels of your own, copies, fills and host functions. Chapter 15 of the
// documents has the rules of asynchronous work.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "ember/base/export.h"
#include "ember/driver/kernel.h"
#include "ember/runtime/observer.h"
#include "ember/runtime/stream.h"

namespace ember::inline v0::cuda {

using driver::Context;
using driver::CudaLaunch;
using driver::HostLaunch;
using driver::Kernel;
using driver::Name;
using driver::Params;

/// Enqueues a kernel on a stream. `args` is any trivially copyable struct of at most 4 KiB; the
/// implementations read it back with `params.as<Args>()`. The kernel's context is owned until it is
/// done, as driver::Context says. Does not block, and allocates nothing on
/// a warm stream. AcceleratorError if the kernel has no implementation for this kind of device.
/// With CUDA_LAUNCH_BLOCKING=1 it waits for the kernel and reports its fault. ValueError for a
/// kernel without a name.
EMBER_API void launch(const Stream& stream, const Kernel& kernel, const Params& params);
/// The same for a kernel whose accesses are known: observers see them. no_accesses() if it touches
/// no memory that others see; an empty list says that they are unknown.
EMBER_API void launch(const Stream& stream, const Kernel& kernel, const Params& params,
                      std::span<const Access> accesses);

template <class Args>
requires(!std::is_same_v<Args, Params> && driver::KernelArguments<Args> &&
         !std::is_invocable_v<const Args&, const HostLaunch&>) void launch(const Stream& stream,
                                                                           const Kernel& kernel,
                                                                           const Args& args) {
  launch(stream, kernel, Params(args));
}

namespace detail {

EMBER_API bool runs_host_implementation();

/// A list that is known, also when it is empty.
inline std::span<const Access> known(std::initializer_list<Access> accesses) noexcept {
  return accesses.size() != 0 ? std::span(accesses.begin(), accesses.size()) : no_accesses();
}

template <class Host>
Status call_host(const Params& params, const HostLaunch& on) {
  try {
    if constexpr (std::is_void_v<std::invoke_result_t<const Host&, const HostLaunch&>>) {
      params.as<Host>()(on);
      return {};
    } else {
      return params.as<Host>()(on);
    }
  } catch (const std::exception& error) {
    return Status(Code::launch_failure, std::string("it threw: ") + error.what());
  } catch (...) {
    return Status(Code::launch_failure, "it threw something that is no std::exception");
  }
}

template <class Cuda>
Status call_cuda(const Params& params, const CudaLaunch& on) {
  if constexpr (std::is_void_v<std::invoke_result_t<const Cuda&, const CudaLaunch&>>) {
    params.as<Cuda>()(on);
    return {};
  } else {
    return params.as<Cuda>()(on);
  }
}

}  // namespace detail

/// Enqueues work of your own, written in place, one function per kind of device:
///
///     launch(stream, "scale",
///            [=](const HostLaunch& on) {          // simulated devices: runs later, on a worker
///              float* x = on.at(data, n);         // device addresses must be asked for
///              if (x == nullptr) return on.fault();
///              for (std::size_t i = 0; i < n; ++i) x[i] *= 2;
///              return Status();
///            },
///            [=](const CudaLaunch& on) {          // real devices: enqueues, now
///              scale<<<blocks, threads, 0, on.stream()>>>(data, n);
///            });
///
/// Both capture by value, at most 4 KiB, trivially copyable; they may return Status or nothing. An
/// exception out of the first becomes a fault that names the kernel. `name` is a literal, or text
/// that Name::intern() keeps.
template <class Host, class Cuda>
requires std::is_invocable_v<const Host&, const HostLaunch&> &&
    std::is_invocable_v<const Cuda&, const CudaLaunch&> && driver::KernelArguments<Host> &&
    driver::KernelArguments<Cuda>
void launch(const Stream& stream, Name name, const Host& host, const Cuda& cuda) {
  const Kernel kernel{name, &detail::call_host<Host>, &detail::call_cuda<Cuda>};
  launch(stream, kernel, detail::runs_host_implementation() ? Params(host) : Params(cuda));
}

/// The same with what the function reads and writes, for observers: `{reads(x, n), writes(y, n)}`.
/// On simulated devices that is checked where a seed decides, or EMBER_SIM_CHECK_ACCESSES=1 asks
/// for it: a function that asks for other memory faults. An empty list: it touches no memory that
/// others see.
template <class Host, class Cuda>
requires std::is_invocable_v<const Host&, const HostLaunch&> &&
    std::is_invocable_v<const Cuda&, const CudaLaunch&> && driver::KernelArguments<Host> &&
    driver::KernelArguments<Cuda>
void launch(const Stream& stream, Name name, std::initializer_list<Access> accesses,
            const Host& host, const Cuda& cuda) {
  const Kernel kernel{name, &detail::call_host<Host>, &detail::call_cuda<Cuda>};
  launch(stream, kernel, detail::runs_host_implementation() ? Params(host) : Params(cuda),
         detail::known(accesses));
}
template <class Host>
requires std::is_invocable_v<const Host&, const HostLaunch&> && driver::KernelArguments<Host>
void launch(const Stream& stream, Name name, std::initializer_list<Access> accesses,
            const Host& host) {
  launch(stream, Kernel{name, &detail::call_host<Host>, nullptr}, Params(host),
         detail::known(accesses));
}

/// The same for simulated devices only.
template <class Host>
requires std::is_invocable_v<const Host&, const HostLaunch&> && driver::KernelArguments<Host>
void launch(const Stream& stream, Name name, const Host& host) {
  launch(stream, Kernel{name, &detail::call_host<Host>, nullptr}, Params(host));
}

/// The same for real devices only.
template <class Cuda>
requires std::is_invocable_v<const Cuda&, const CudaLaunch&> && driver::KernelArguments<Cuda>
void launch(const Stream& stream, Name name, std::nullptr_t, const Cuda& cuda) {
  launch(stream, Kernel{name, nullptr, &detail::call_cuda<Cuda>}, Params(cuda));
}
template <class Cuda>
requires std::is_invocable_v<const Cuda&, const CudaLaunch&> && driver::KernelArguments<Cuda>
void launch(const Stream& stream, Name name, std::initializer_list<Access> accesses, std::nullptr_t,
            const Cuda& cuda) {
  launch(stream, Kernel{name, nullptr, &detail::call_cuda<Cuda>}, Params(cuda),
         detail::known(accesses));
}

/// Enqueues a copy; the direction follows from the addresses, which may be of any device, pinned or
/// ordinary host memory. Never blocks if the host side is pinned; with ordinary host memory it may
/// block until the copy is done. AcceleratorError for null, and for device addresses outside any
/// allocation.
EMBER_API void copy_async(void* target, const void* source, std::size_t bytes,
                          const Stream& stream = current_stream());

/// The same, and blocks until the copy is done.
EMBER_API void copy(void* target, const void* source, std::size_t bytes,
                    const Stream& stream = current_stream());

/// Enqueues filling device memory with one byte value.
EMBER_API void fill_async(void* target, std::uint8_t value, std::size_t bytes,
                          const Stream& stream = current_stream());

/// Enqueues a call of a function on the host, in the stream's order, on a thread of the driver's.
/// It must not wait for a device: calls of ember that would are refused with AcceleratorError
/// `operation not permitted` (on CUDA it must not enqueue work either, as CUDA asks); an exception
/// out of it ends the process. What it captured is destroyed after the call, or when the call is
/// dropped by a fault or a reset.
EMBER_API void host_function(std::function<void()> function,
                             const Stream& stream = current_stream());
/// The same with the host memory that it reads and writes, for observers; no_accesses() for none.
EMBER_API void host_function(std::function<void()> function, const Stream& stream,
                             std::span<const Access> accesses);
inline void host_function(std::function<void()> function, const Stream& stream,
                          std::initializer_list<Access> accesses) {
  host_function(std::move(function), stream, detail::known(accesses));
}

/// The same for what can only be moved, such as a lambda that owns a promise.
template <class Function>
requires(std::is_invocable_v<Function&> && !std::is_copy_constructible_v<Function> &&
         !std::is_lvalue_reference_v<Function>) void host_function(Function&& function,
                                                                   const Stream& stream =
                                                                       current_stream()) {
  host_function(
      [kept = std::make_shared<Function>(std::forward<Function>(function))] { (*kept)(); }, stream);
}
template <class Function>
requires(
    std::is_invocable_v<Function&> && !std::is_copy_constructible_v<Function> &&
    !std::is_lvalue_reference_v<Function>) void host_function(Function&& function,
                                                              const Stream& stream,
                                                              std::span<const Access> accesses) {
  host_function(
      [kept = std::make_shared<Function>(std::forward<Function>(function))] { (*kept)(); }, stream,
      accesses);
}

/// Spins for a number of clock cycles on the stream (the documents' `_sleep`); one cycle is a
/// nanosecond on simulated devices.
EMBER_API void sleep_cycles(std::uint64_t cycles, const Stream& stream = current_stream());

/// The device that owns an address. Error for host memory, naming the address.
EMBER_API int device_of_pointer(const void* pointer);

}  // namespace ember::inline v0::cuda
