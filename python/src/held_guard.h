// Guards inside objects of Python, which may go at any time and on any thread.
#pragma once

#include <concepts>
#include <memory>

namespace ember::python {

/// A guard that end() leaves, and nothing else. An object that was entered and never left may be
/// collected by another thread: what is current there is no business of it. What the guard would
/// have restored is lost then, and stays what it was made, as in PyTorch.
template <class Guard>
class HeldGuard {
 public:
  template <class Argument>
  requires std::constructible_from<Guard, const Argument&>
  explicit HeldGuard(const Argument& argument) : guard_(argument) {}
  HeldGuard(const HeldGuard&) = delete;
  HeldGuard& operator=(const HeldGuard&) = delete;
  ~HeldGuard() = default;

  const Guard& get() const noexcept { return guard_.value; }
  void end() noexcept { std::destroy_at(&guard_.value); }

 private:
  union Place {
    template <class Argument>
    explicit Place(const Argument& argument) : value(argument) {}
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;
    ~Place() {}  // NOLINT(modernize-use-equals-default): of a union with such a member
    Guard value;
  };
  Place guard_;
};

}  // namespace ember::python
