// Puts a driver of a test's own on top of the one that EMBER_DEVICES asks for.
#pragma once

#include <memory>
#include <utility>

#include "ember/base/env.h"
#include "ember/base/error.h"
#include "ember/driver/choice.h"
#include "ember/driver/driver.h"
#include "ember/driver/open.h"
#include "ember/runtime/runtime.h"

namespace ember::test {

/// `Outer` is made of the driver below it. Before the first use of a device only, so in IN_CHILD.
template <class Outer>
Outer& installed() {
  driver::Choice choice;
  check(driver::parse_choice(env::get("EMBER_DEVICES"), choice));
  std::unique_ptr<driver::Driver> below;
  check(driver::open(choice, below));
  auto made = std::make_unique<Outer>(std::move(below));
  Outer& outer = *made;
  cuda::install_driver(std::move(made));
  return outer;
}

}  // namespace ember::test
