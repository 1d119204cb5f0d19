// Makes one table out of the files that the benchmark programs wrote.
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <string>

#include "bench/table.h"

namespace {

bool write(const char* path, const ember::bench::Table& table,
           void (ember::bench::Table::*how)(std::ostream&) const) {
  std::ofstream file(path);
  (table.*how)(file);
  if (file.flush()) return true;
  std::fprintf(stderr, "%s: cannot write it\n", path);
  return false;
}

}  // namespace

int main(int count, char** arguments) {
  ember::bench::Table table;
  const char* markdown = nullptr;
  const char* json = nullptr;
  for (int i = 1; i < count; ++i) {
    const bool more = i + 1 < count;
    if (more && std::strcmp(arguments[i], "--markdown") == 0) {
      markdown = arguments[++i];
    } else if (more && std::strcmp(arguments[i], "--json") == 0) {
      json = arguments[++i];
    } else if (std::ifstream file(arguments[i]); file) {
      table.read_json(file);
    } else {
      std::fprintf(stderr,
                   "%s: cannot read it\nusage: %s [--markdown FILE] [--json FILE] RESULTS...\n",
                   arguments[i], arguments[0]);
      return 2;
    }
  }
  table.write_text(std::cout);
  using ember::bench::Table;
  bool good = true;
  if (markdown != nullptr) good = write(markdown, table, &Table::write_markdown) && good;
  if (json != nullptr) good = write(json, table, &Table::write_json) && good;
  return good ? 0 : 1;
}
