#include "ember/runtime/declared.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ember/base/env.h"
#include "ember/driver/kernels.h"
#include "ember/driver/simulation.h"

namespace ember::inline v0::cuda {
namespace detail {
std::atomic<bool> checking_accesses{false};
}

namespace {

/// Elements in so many runs are compared one by one; of what has more, the first and the last byte.
constexpr std::size_t kMostRuns = std::size_t{1} << 16;
constexpr std::size_t kNamed = 8;  // accesses in a message

struct Interval {
  std::uintptr_t first, last;  // one past the last byte
};

/// Bytes from an address on, all or those of strided elements.
struct Bytes {
  std::uintptr_t address;
  std::size_t bytes;
  std::size_t item;
  std::span<const std::int64_t> sizes, strides;

  bool dense() const noexcept { return sizes.empty(); }
  bool holds(const Bytes& other) const noexcept {
    return other.address >= address && other.bytes <= bytes &&
           other.address - address <= bytes - other.bytes;
  }
  bool same_as(const Bytes& other) const noexcept {
    return address == other.address && item == other.item &&
           std::equal(sizes.begin(), sizes.end(), other.sizes.begin(), other.sizes.end()) &&
           std::equal(strides.begin(), strides.end(), other.strides.begin(), other.strides.end());
  }
};

Bytes bytes_of(const Access& access) noexcept {
  return {reinterpret_cast<std::uintptr_t>(access.address), access.bytes, access.item, access.sizes,
          access.strides};
}

/// The runs of adjacent bytes, in any order. False, and none of them, if there are too many.
bool add_runs(const Bytes& bytes, std::vector<Interval>& out) {
  struct Along {
    std::size_t step, count;
  };
  std::vector<Along> dims;
  dims.reserve(bytes.sizes.size());
  for (std::size_t d = 0; d < bytes.sizes.size(); ++d)
    if (bytes.sizes[d] > 1 && bytes.strides[d] != 0)
      dims.push_back({static_cast<std::size_t>(std::abs(bytes.strides[d])) * bytes.item,
                      static_cast<std::size_t>(bytes.sizes[d])});
  std::sort(dims.begin(), dims.end(),
            [](const Along& a, const Along& b) { return a.step < b.step; });
  std::size_t run = bytes.item;
  auto outer = dims.begin();
  for (; outer != dims.end() && outer->step <= run; ++outer)
    run += outer->step * (outer->count - 1);
  std::size_t runs = 1;
  for (auto dim = outer; dim != dims.end(); ++dim) {
    if (dim->count > kMostRuns / runs) return false;
    runs *= dim->count;
  }
  out.reserve(out.size() + runs);
  for (std::size_t i = 0; i < runs; ++i) {
    std::uintptr_t first = bytes.address;
    std::size_t rest = i;
    for (auto dim = outer; dim != dims.end(); ++dim) {
      first += rest % dim->count * dim->step;
      rest /= dim->count;
    }
    out.push_back({first, first + run});
  }
  return true;
}

/// Sorted, and those that meet as one.
void merge(std::vector<Interval>& all) {
  std::sort(all.begin(), all.end(),
            [](const Interval& a, const Interval& b) { return a.first < b.first; });
  std::size_t kept = 0;
  for (const Interval& next : all) {
    if (kept != 0 && next.first <= all[kept - 1].last)
      all[kept - 1].last = std::max(all[kept - 1].last, next.last);
    else
      all[kept++] = next;
  }
  all.resize(kept);
}

bool within(const Interval& bytes, const std::vector<Interval>& merged) {
  const auto after = std::upper_bound(
      merged.begin(), merged.end(), bytes.first,
      [](std::uintptr_t address, const Interval& each) { return address < each.first; });
  return after != merged.begin() && bytes.last <= std::prev(after)->last;
}

/// What a launch declared. A kernel's context, in place of its own, which it keeps.
class Declared final : public driver::Context {
 public:
  Declared(const driver::Kernel& kernel, std::span<const Access> accesses)
      : kernel_(kernel), accesses_(accesses.begin(), accesses.end()) {
    std::size_t count = 0;
    for (const Access& access : accesses) count += access.sizes.size() + access.strides.size();
    numbers_.reserve(count);
    const auto keep = [&](std::span<const std::int64_t>& numbers) {
      const std::size_t from = numbers_.size();
      numbers_.insert(numbers_.end(), numbers.begin(), numbers.end());
      numbers = std::span<const std::int64_t>(numbers_).subspan(from);
    };
    for (Access& access : accesses_) {
      keep(access.sizes);
      keep(access.strides);
    }
  }

  const driver::Kernel& kernel() const noexcept { return kernel_; }
  const std::vector<Access>& accesses() const noexcept { return accesses_; }

  /// Whether all these bytes are among those of accesses, of those that write if `writes`.
  bool covers(const Bytes& touched, bool writes) const {
    for (const Access& access : accesses_) {
      const Bytes declared = bytes_of(access);
      if (counts(access, writes) && declared.holds(touched) &&
          (declared.dense() || touched.dense() || declared.same_as(touched)))
        return true;
    }
    // Several together, or other numbers for the same elements. Where a kernel does not say which
    // elements of its range it touches, they are those that were declared.
    std::vector<Interval> runs;
    const bool exact = !touched.dense() && add_runs(touched, runs);
    if (!exact) runs.assign(1, {touched.address, touched.address + touched.bytes});
    std::vector<Interval> declared;
    for (const Access& access : accesses_) {
      if (!counts(access, writes)) continue;
      const Bytes bytes = bytes_of(access);
      if (!exact || bytes.dense() || !add_runs(bytes, declared))
        declared.push_back({bytes.address, bytes.address + bytes.bytes});
    }
    merge(declared);
    return std::all_of(runs.begin(), runs.end(),
                       [&](const Interval& run) { return within(run, declared); });
  }

  std::string text() const {
    if (accesses_.empty()) return "nothing";
    std::string made;
    const std::size_t named = std::min(accesses_.size(), kNamed);
    for (std::size_t i = 0; i < named; ++i)
      made += (i == 0 ? "" : ", ") + text_of(bytes_of(accesses_[i]), accesses_[i].writes);
    if (named < accesses_.size())
      made += " and " + std::to_string(accesses_.size() - named) + " more";
    return made;
  }
  static std::string text_of(const Bytes& bytes, bool writes) {
    char text[96];
    std::snprintf(text, sizeof text, "%s %zu bytes at %p%s", writes ? "writes" : "reads",
                  bytes.bytes, reinterpret_cast<void*>(bytes.address),
                  bytes.dense() ? "" : " with strides");
    return text;
  }

 private:
  static bool counts(const Access& access, bool writes) noexcept {
    return access.bytes != 0 && (access.writes || !writes);
  }

  const driver::Kernel kernel_;
  std::vector<Access> accesses_;
  std::vector<std::int64_t> numbers_;  // their sizes and strides
};

/// Stands before the launch that a driver makes.
class CheckedLaunch final : public driver::HostLaunch {
 public:
  CheckedLaunch(const driver::HostLaunch& next, const Declared& declared) noexcept
      : HostLaunch(next.device(), declared.kernel().context.get()),
        next_(next),
        declared_(declared) {}
  ~CheckedLaunch() = default;
  Status fault() const override { return undeclared_.ok() ? next_.fault() : undeclared_; }
  const Status& undeclared() const noexcept { return undeclared_; }

 private:
  void* resolve(void* pointer, const Touch& touch) const noexcept override {
    void* const place = resolve_on(next_, pointer, touch);
    if (place == nullptr || touch.bytes == 0) return place;
    const Bytes touched{reinterpret_cast<std::uintptr_t>(pointer), touch.bytes, touch.item,
                        touch.sizes, touch.strides};
    if (declared_.covers(touched, touch.writes)) return place;
    undeclared_ = Status(Code::illegal_address,
                         "it " + Declared::text_of(touched, touch.writes) +
                             ", which its launch does not declare: " + declared_.text());
    return nullptr;
  }

  const driver::HostLaunch& next_;
  const Declared& declared_;
  mutable Status undeclared_;
};

Status run_checked(const driver::Params& params, const driver::HostLaunch& on) {
  const auto& declared = on.context<Declared>();
  const CheckedLaunch launch(on, declared);
  Status status = declared.kernel().host.run(params, launch);
  // It may have gone on without the place.
  return launch.undeclared().ok() ? status : launch.undeclared();
}

}  // namespace

void check_accesses_as_asked(bool simulated) {
  const std::optional<std::string> asked = env::get("EMBER_SIM_CHECK_ACCESSES");
  const bool check =
      simulated && (asked && !asked->empty() ? env::flag("EMBER_SIM_CHECK_ACCESSES")
                                             : driver::simulated_schedule().seeded());
  if (detail::checking_accesses.exchange(check) == check) return;
  detail::accesses_wanted += check ? 1 : -1;
}

driver::Kernel checked(const driver::Kernel& kernel, std::span<const Access> accesses) {
  if (kernel.host == nullptr) return kernel;  // the driver refuses it
  // It touches nothing, and simulated devices know it by its implementation.
  if (kernel.host.run == driver::kernels::sleep.host.run) return kernel;
  return {kernel.name, &run_checked, kernel.cuda, make_ref<Declared>(kernel, accesses)};
}

driver::Kernel with_rebound_accesses(const driver::Kernel& kernel,
                                     std::span<const driver::Rebound> memory) {
  if (kernel.host.run != &run_checked) return kernel;
  const auto& declared = static_cast<const Declared&>(*kernel.context);
  std::vector<Access> accesses = declared.accesses();
  for (Access& each : accesses) each.address = driver::rebound_address(memory, each.address);
  return checked(declared.kernel(), accesses);
}

}  // namespace ember::inline v0::cuda
