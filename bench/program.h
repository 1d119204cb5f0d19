// What every benchmark program of ember does first and last: its options, the devices it runs on,
// the facts about the machine, the table and the file.
#pragma once

#include <functional>
#include <string>

#include "bench/table.h"
#include "bench/timing.h"

namespace ember::bench {

class Program {
 public:
  /// Reads `--json FILE` and `--quick`; ends the program with a message for anything else. Chooses
  /// two simulated devices if there is no other and EMBER_DEVICES asks for none.
  Program(int count, char** arguments);

  bool simulated() const { return simulated_; }
  int devices() const { return devices_; }
  /// How often to call: as given, or hardly at all with --quick.
  Bursts bursts(const Bursts& wanted) const { return quick_ ? wanted.quick() : wanted; }
  bool quick() const { return quick_; }

  Table& table() { return table_; }
  /// Measures rows. If that throws, says why on stderr and goes on; the program then fails.
  void measure(const char* what, const std::function<void()>& rows);
  /// Shows the table, writes the file. Returns main's result.
  int finish();

 private:
  Table table_;
  std::string json_;
  bool quick_ = false;
  bool simulated_ = false;
  int devices_ = 0;
  int failures_ = 0;
};

}  // namespace ember::bench
