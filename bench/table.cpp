#include "bench/table.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <istream>
#include <ostream>
#include <string_view>

namespace ember::bench {
namespace {

using Fields = std::vector<std::pair<std::string, std::string>>;

bool there(double value) { return !std::isnan(value); }

std::string digits(double value) {
  if (!there(value)) return "";
  const int decimals = value >= 100 ? 0 : value >= 10 ? 1 : value >= 1 ? 2 : value >= 0.1 ? 3 : 4;
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", decimals, value);
  return text;
}

std::string ratio(double value, double base) {
  if (!there(value) || !there(base) || base == 0) return "";
  const double times = value / base;
  char text[64];
  std::snprintf(text, sizeof text, times < 0.1 ? "%.3f x" : "%.2f x", times);
  return text;
}

// ---- Tables

constexpr std::size_t kColumns = 9;
using Line = std::array<std::string, kColumns>;

Line heading() {
  return {"", "unit", "ours", "raw", "ours/raw", "PyTorch", "ours/PyTorch", "goal", "met"};
}

Line line(const Row& row) {
  return {row.name,
          row.unit,
          digits(row.ours),
          digits(row.raw),
          ratio(row.ours, row.raw),
          digits(row.torch),
          ratio(row.ours, row.torch),
          row.goal,
          met(row)};
}

std::vector<std::string> groups(const std::vector<Row>& rows) {
  std::vector<std::string> found;
  for (const Row& row : rows)
    if (std::find(found.begin(), found.end(), row.group) == found.end()) found.push_back(row.group);
  return found;
}

/// What the raw calls cost in either process: how far the two can be compared.
std::string raw_beside(const std::vector<Row>& rows) {
  std::string text;
  for (const Row& row : rows) {
    if (!there(row.raw) || !there(row.torch_raw)) continue;
    if (!text.empty()) text += "; ";
    text += row.name + " " + digits(row.raw) + " / " + digits(row.torch_raw) + " " + row.unit;
  }
  return text.empty() ? "" : "Raw calls in ember's / in PyTorch's process: " + text + ".";
}

/// How many goals are met, of those that could be judged; "" if none could.
std::string verdict(const std::vector<Row>& rows) {
  int yes = 0;
  int no = 0;
  for (const Row& row : rows) {
    if (met(row) == "yes") ++yes;
    if (met(row) == "no") ++no;
  }
  if (yes + no == 0) return "";
  return std::to_string(yes) + " of " + std::to_string(yes + no) + " goals met.";
}

// ---- JSON: objects of strings and numbers, one per line

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) >= 0x20) out += c;
  }
  return out + '"';
}

void append(std::string& out, const char* key, const std::string& value) {
  if (!out.empty()) out += ", ";
  out += quoted(key) + ": " + value;
}

void append(std::string& out, const char* key, double value) {
  if (!there(value)) return;
  char text[64];
  std::snprintf(text, sizeof text, "%.6g", value);
  append(out, key, std::string(text));
}

bool take_string(std::string_view& rest, std::string& out) {
  if (rest.empty() || rest.front() != '"') return false;
  rest.remove_prefix(1);
  out.clear();
  while (!rest.empty() && rest.front() != '"') {
    if (rest.front() == '\\' && rest.size() > 1) rest.remove_prefix(1);
    out += rest.front();
    rest.remove_prefix(1);
  }
  if (rest.empty()) return false;
  rest.remove_prefix(1);
  return true;
}

void skip(std::string_view& rest, std::string_view what) {
  const auto end = rest.find_first_not_of(what);
  rest.remove_prefix(end == std::string_view::npos ? rest.size() : end);
}

/// The keys and values of a flat object; nothing if it is none.
Fields parse(std::string_view rest) {
  Fields fields;
  skip(rest, " ");
  if (rest.empty() || rest.front() != '{') return {};
  rest.remove_prefix(1);
  while (true) {
    skip(rest, " ,");
    if (!rest.empty() && rest.front() == '}') return fields;
    std::string key;
    std::string value;
    if (!take_string(rest, key)) return {};
    skip(rest, " :");
    if (!take_string(rest, value)) {
      const auto end = std::min(rest.find_first_of(",} "), rest.size());
      if (end == 0) return {};
      value = rest.substr(0, end);
      rest.remove_prefix(end);
    }
    fields.emplace_back(key, value);
  }
}

Row to_row(const Fields& fields) {
  Row row;
  for (const auto& [key, value] : fields) {
    const auto number = [&text = value] { return std::strtod(text.c_str(), nullptr); };
    if (key == "group") row.group = value;
    if (key == "row") row.name = value;
    if (key == "unit") row.unit = value;
    if (key == "ours") row.ours = number();
    if (key == "raw") row.raw = number();
    if (key == "pytorch") row.torch = number();
    if (key == "pytorch_raw") row.torch_raw = number();
    if (key == "goal") row.goal = value;
  }
  return row;
}

}  // namespace

std::string met(const Row& row) {
  char comparison[3] = "";
  double factor = 0;
  char of[16] = "";
  if (std::sscanf(row.goal.c_str(), "%2s %lf x %15s", comparison, &factor, of) < 2) return "";
  double bound = factor;
  if (std::string_view(of) == "raw") bound *= row.raw;
  if (std::string_view(of) == "PyTorch") bound *= row.torch;
  if (!there(bound) || !there(row.ours)) return "";
  constexpr double kExactness = 0.005;
  const bool good = std::string_view(comparison) == "<=" ? row.ours <= bound * (1 + kExactness)
                                                         : row.ours >= bound * (1 - kExactness);
  return good ? "yes" : "no";
}

void Table::note(const std::string& key, const std::string& value) {
  if (value.empty()) return;
  for (auto& [name, noted] : notes_)
    if (name == key) {
      noted = value;
      return;
    }
  notes_.emplace_back(key, value);
}

std::string Table::noted(const std::string& key) const {
  for (const auto& [name, value] : notes_)
    if (name == key) return value;
  return "";
}

void Table::add(const Row& row) {
  const auto same = [&](const Row& other) { return other.name == row.name; };
  const auto found = std::find_if(rows_.begin(), rows_.end(), same);
  if (found == rows_.end()) {
    rows_.push_back(row);
    return;
  }
  for (const auto figure : {&Row::ours, &Row::raw, &Row::torch, &Row::torch_raw})
    if (there(row.*figure)) (*found).*figure = row.*figure;
  for (const auto text : {&Row::group, &Row::unit, &Row::goal})
    if (((*found).*text).empty()) (*found).*text = row.*text;
}

void Table::write_text(std::ostream& out) const {
  std::array<std::size_t, kColumns> widths{};
  const auto measure = [&](const Line& cells) {
    for (std::size_t i = 0; i < kColumns; ++i) widths[i] = std::max(widths[i], cells[i].size());
  };
  measure(heading());
  for (const Row& row : rows_) measure(line(row));
  for (const Row& row : rows_) widths[0] = std::max(widths[0], row.group.size());
  const auto show = [&](Line cells, const std::string& first) {
    cells[0] = first;
    std::string text;
    for (std::size_t i = 0; i < kColumns; ++i) {
      const std::string pad(widths[i] - std::min(widths[i], cells[i].size()), ' ');
      // Words stand left, figures right.
      const bool left = i < 2 || i >= 7;
      text += (i == 0 ? "" : "  ") + (left ? cells[i] + pad : pad + cells[i]);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    out << text << '\n';
  };
  for (const auto& [key, value] : notes_) out << key << ": " << value << '\n';
  for (const std::string& group : groups(rows_)) {
    out << '\n';
    show(heading(), group);
    for (const Row& row : rows_)
      if (row.group == group) show(line(row), row.name);
  }
  if (const std::string text = verdict(rows_); !text.empty()) out << '\n' << text << '\n';
  if (const std::string text = raw_beside(rows_); !text.empty()) out << text << '\n';
}

void Table::write_markdown(std::ostream& out) const {
  const auto show = [&](const Line& cells) {
    for (const std::string& cell : cells) out << "| " << cell << ' ';
    out << "|\n";
  };
  for (const auto& [key, value] : notes_) out << "- " << key << ": " << value << '\n';
  for (const std::string& group : groups(rows_)) {
    Line names = heading();
    names[0] = group;
    out << '\n';
    show(names);
    out << "|---|---|--:|--:|--:|--:|--:|---|---|\n";
    for (const Row& row : rows_)
      if (row.group == group) show(line(row));
  }
  if (const std::string text = verdict(rows_); !text.empty()) out << '\n' << text << '\n';
  if (const std::string text = raw_beside(rows_); !text.empty()) out << '\n' << text << '\n';
}

void Table::write_json(std::ostream& out) const {
  std::string text;
  for (const auto& [key, value] : notes_) append(text, key.c_str(), quoted(value));
  if (!text.empty()) out << '{' << text << "}\n";
  for (const Row& row : rows_) {
    text.clear();
    append(text, "row", quoted(row.name));
    if (!row.group.empty()) append(text, "group", quoted(row.group));
    append(text, "unit", quoted(row.unit));
    append(text, "ours", row.ours);
    append(text, "raw", row.raw);
    append(text, "pytorch", row.torch);
    append(text, "pytorch_raw", row.torch_raw);
    if (!row.goal.empty()) append(text, "goal", quoted(row.goal));
    out << '{' << text << "}\n";
  }
}

void Table::read_json(std::istream& in) {
  std::string text;
  while (std::getline(in, text)) {
    const Fields fields = parse(text);
    const Row row = to_row(fields);
    if (!row.name.empty())
      add(row);
    else
      for (const auto& [key, value] : fields) note(key, value);
  }
}

}  // namespace ember::bench
