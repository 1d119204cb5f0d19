// Waits of the host: the debug mode, budgets and counts of ember.cuda.
#include "ember/runtime/sync_debug.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "define.h"

namespace ember::python {
namespace {

/// `with ember.cuda.WaitBudget(1):`. The budget itself begins where the block does.
struct BudgetContext {
  std::uint64_t most;
  std::uint32_t kinds;
  std::unique_ptr<cuda::WaitBudget> open;
  std::uint64_t used = 0;  // of the block that ended last

  std::uint64_t count() const { return open ? open->used() : used; }
  void enter() {
    if (open) throw Error("WaitBudget: it has been entered already");
    open = std::make_unique<cuda::WaitBudget>(most, kinds);
  }
  void exit(bool failed) {
    if (!open) return;
    const std::unique_ptr<cuda::WaitBudget> ended = std::move(open);
    used = ended->used();
    if (!failed) ended->check();
  }
};

std::uint32_t bits_of(const std::optional<std::vector<std::string>>& kinds) {
  std::uint32_t bits = 0;
  if (!kinds) return bits;
  for (const std::string& kind : *kinds) bits |= 1U << static_cast<unsigned>(cuda::wait_kind(kind));
  if (bits == 0) throw ValueError("kinds: got none, expected some, or None for all");
  return bits;
}

void set_mode(nb::handle mode) {
  WarningsRaised warnings;
  if (nb::isinstance<nb::str>(mode))
    cuda::set_sync_debug_mode(std::string_view(nb::cast<std::string>(mode)));
  else
    cuda::set_sync_debug_mode(argument<int>(mode, "debug_mode", "an int or a str"));
  warnings.raise();
}

}  // namespace

void bind_sync_debug(nb::module_& m) {
  m.def("set_sync_debug_mode", &set_mode, nb::arg("debug_mode"),
        nb::sig("def set_sync_debug_mode(debug_mode: int | str) -> None"),
        "What happens before a copy that blocks, or a wait for a stream, in the whole process:\n"
        "nothing (0 or 'default'), a warning (1 or 'warn'), or an error (2 or 'error').");
  m.def("get_sync_debug_mode", &cuda::get_sync_debug_mode, "The mode: 0, 1 or 2.");
  m.def(
      "host_waits",
      [] {
        const auto counts = cuda::host_waits();
        nb::dict made;
        for (std::size_t i = 0; i < counts.size(); ++i)
          made[cuda::wait_kind_name(static_cast<cuda::WaitKind>(i))] = counts[i];
        return made;
      },
      nb::sig("def host_waits() -> dict[str, int]"),
      "How often the calling thread has waited for a device so far, by kind.");
  nb::class_<BudgetContext> budget(
      m, "WaitBudget",
      "In its with block the calling thread may wait for devices so many times, for tests of code\n"
      "that is not to wait; a wait too many raises before it begins. `kinds`: which waits count, "
      "of\n"
      "'copy', 'stream', 'event', 'device', 'pageable', 'launch', 'memory' and 'library'; None: "
      "all.");
  budget
      .def(
          "__init__",
          [](BudgetContext* self, std::uint64_t most,
             const std::optional<std::vector<std::string>>& kinds) {
            new (self) BudgetContext{most, bits_of(kinds), nullptr};
          },
          nb::arg("most"), nb::arg("kinds") = nb::none())
      .def_prop_ro("used", &BudgetContext::count, "How many waits it has counted.")
      .def(
          "__enter__",
          [](nb::handle_t<BudgetContext> self) {
            nb::inst_ptr<BudgetContext>(self)->enter();
            return nb::borrow(self);
          },
          nb::sig("def __enter__(self) -> WaitBudget"))
      .def(
          "__exit__",
          [](BudgetContext& self, nb::handle type, nb::handle, nb::handle) {
            self.exit(!type.is_none());
          },
          nb::arg("exc_type").none(), nb::arg("exc").none(), nb::arg("traceback").none(),
          nb::sig(
              "def __exit__(self, exc_type: object, exc: object, traceback: object, /) -> None"));
}

}  // namespace ember::python
