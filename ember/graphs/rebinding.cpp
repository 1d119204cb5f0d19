#include "ember/graphs/rebinding.h"

#include <algorithm>
#include <string>

#include "ember/base/error.h"
#include "ember/graphs/checks.h"
#include "ember/graphs/extent.h"
#include "ember/graphs/structure.h"
#include "ember/runtime/declared.h"
#include "ember/runtime/runtime.h"
#include "ember/tensor/tensor.h"

namespace ember::inline v0::cuda::detail {
namespace {

using driver::Rebound;

constexpr std::uintptr_t kAlignment = 16;  // of the widest access of a kernel

std::uintptr_t number(const void* address) noexcept {
  return reinterpret_cast<std::uintptr_t>(address);
}

bool overlap(const void* a, std::size_t a_bytes, const void* b, std::size_t b_bytes) noexcept {
  return number(a) < number(b) + b_bytes && number(b) < number(a) + a_bytes;
}

[[noreturn]] void refuse(std::size_t place, const std::string& what) {
  throw Error("CUDAGraph.replay: bind, pair " + std::to_string(place) + ": " + what);
}

/// The two of a pair have to be alike.
Rebound rebound_of(std::size_t place, const GraphBinding& binding) {
  const Tensor& captured = binding.captured;
  const Tensor& now = binding.now;
  if (!captured.defined() || !now.defined()) refuse(place, "a tensor is undefined");
  const auto expect = [&](bool same, const char* what, const std::string& came,
                          const std::string& expected) {
    if (!same)
      refuse(place, std::string("the new tensor has ") + what + " " + came + ", expected " +
                        expected + " as the captured one");
  };
  if (!captured.is_cuda())
    refuse(place, "the captured tensor is on " + captured.device().str() +
                      ", expected one on a CUDA device");
  expect(now.device() == captured.device(), "device", now.device().str(), captured.device().str());
  expect(now.dtype() == captured.dtype(), "dtype", dtype_name(now.dtype()),
         dtype_name(captured.dtype()));
  expect(now.sizes() == captured.sizes(), "shape", now.sizes().str(), captured.sizes().str());
  expect(now.strides() == captured.strides(), "strides", now.strides().str(),
         captured.strides().str());
  const auto elements = static_cast<std::size_t>(extent_of(captured));
  const Rebound made{captured.address(), elements * captured.element_size(), now.address()};
  const auto beyond = [](const void* address) {
    return std::to_string(number(address) % kAlignment);
  };
  expect(number(made.captured) % kAlignment == number(made.now) % kAlignment,
         "an address that is, modulo 16,", beyond(made.now), beyond(made.captured));
  return made;
}

/// What the work of a graph does with the memory of one pair.
struct Use {
  bool any = false, writes = false;
};

std::string captured_text(const CaptureLog::Entry& entry) {
  return std::string("captured ") + work_name(entry.activity) +
         (entry.activity.stack != 0 ? place_text("Captured", entry.activity.stack) : "");
}

/// Where accesses of one piece of work begin that lie in rebound memory.
std::vector<const void*> addresses_in(std::span<const Rebound> memory,
                                      const CaptureLog::Entry& entry) {
  std::vector<const void*> made;
  for (const Access& access : entry.accesses)
    if (access.bytes != 0 && driver::find_rebound(memory, number(access.address)) != nullptr &&
        std::find(made.begin(), made.end(), access.address) == made.end())
      made.push_back(access.address);
  return made;
}

/// Refuses what the captured work cannot do with other memory.
void require_rebindable(std::span<const Rebound> memory, const CaptureLog& log) {
  std::vector<Use> uses(memory.size());
  for (const CaptureLog::Entry& entry : log.entries()) {
    if (!is_work(entry.activity.kind)) continue;
    if (!entry.activity.accesses_known)
      throw Error("CUDAGraph.replay: bind: " +
                  std::string("the graph has work that does not say "
                              "which memory it touches, expected none: ") +
                  captured_text(entry));
    for (const Access& access : entry.accesses)
      for (std::size_t k = 0; k < memory.size(); ++k) {
        const Rebound& each = memory[k];
        if (access.bytes == 0 || !overlap(access.address, access.bytes, each.captured, each.bytes))
          continue;
        if (!each.holds(number(access.address)) ||
            number(access.address) + access.bytes > number(each.captured) + each.bytes)
          refuse(k,
                 "the graph also uses memory beside that of the captured tensor, expected "
                 "pairs of whole tensors: " +
                     captured_text(entry));
        uses[k].any = true;
        uses[k].writes |= access.writes;
      }
  }
  for (std::size_t k = 0; k < memory.size(); ++k) {
    const Rebound& each = memory[k];
    if (!uses[k].any) refuse(k, "the graph does not use the captured tensor");
    for (std::size_t other = 0; other < k; ++other) {
      const Rebound& before = memory[other];
      if (overlap(each.captured, each.bytes, before.captured, before.bytes))
        refuse(k, "the captured tensor overlaps that of pair " + std::to_string(other));
      if ((uses[k].writes || uses[other].writes) &&
          overlap(each.now, each.bytes, before.now, before.bytes))
        refuse(k, "the new tensor overlaps that of pair " + std::to_string(other) +
                      ", and one of them is written to");
    }
    for (const CaptureLog::Entry& entry : log.entries())
      for (const Access& access : entry.accesses)
        if ((access.writes || uses[k].writes) &&
            overlap(access.address, access.bytes, each.now, each.bytes) &&
            driver::find_rebound(memory, number(access.address)) == nullptr)
          refuse(k,
                 "the new tensor overlaps other memory of the graph, and one of them is "
                 "written to: " +
                     captured_text(entry));
  }
}

}  // namespace

void Rebindings::bind(std::span<const GraphBinding> bindings, const CaptureLog& log,
                      const driver::GraphHandle& graph, const driver::GraphExecHandle& exec) {
  std::vector<Rebound> memory;
  memory.reserve(bindings.size());
  for (std::size_t k = 0; k < bindings.size(); ++k) memory.push_back(rebound_of(k, bindings[k]));
  if (memory == memory_) return;
  require_rebindable(memory, log);
  std::vector<driver::NodeBinding> nodes;
  std::vector<std::uint64_t> all;
  for (const CaptureLog::Entry& entry : log.entries()) {
    if (!is_work(entry.activity.kind)) continue;
    all.push_back(entry.node);
    std::vector<const void*> addresses = addresses_in(memory, entry);
    if (!addresses.empty() || !addresses_in(memory_, entry).empty())
      nodes.push_back({entry.node, work_name(entry.activity), std::move(addresses)});
  }
  check(active_driver().graph_bind(graph, exec, {nodes, all, memory, &with_rebound_accesses}));
  memory_ = std::move(memory);
}

}  // namespace ember::inline v0::cuda::detail
