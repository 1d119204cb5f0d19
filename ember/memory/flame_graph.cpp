#include "ember/memory/flame_graph.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <limits>
#include <map>
#include <vector>

#include "ember/base/bytes.h"
#include "ember/base/error.h"
#include "ember/base/json_text.h"
#include "ember/base/number_text.h"
#include "ember/memory/pickle.h"

namespace ember::inline v0::cuda {
namespace {

constexpr std::size_t kDeepest = 1000;
constexpr double kWidth = 1200, kRow = 17, kTop = 40;
constexpr double kNarrowest = 0.1;    // what is less cannot be seen
constexpr double kLetter = 6.6;       // of the font, about
constexpr double kFewestLetters = 3;  // in which a name says something

/// What lies on the same names, together.
struct Part {
  std::string name;
  std::uint64_t bytes = 0;
  std::size_t depth = 0;
  std::map<std::string, std::size_t, std::less<>> above;  // by name: their numbers
};

[[noreturn]] void refuse(std::size_t line, const char* why) {
  throw ValueError("folded: line " + std::to_string(line) + ": " + why +
                   ", expected names separated by ';', a blank and a number of bytes");
}

/// Part 0 is all of it; parts come after those that they lie on.
std::vector<Part> parts_of(std::string_view folded) {
  std::vector<Part> parts(1);
  parts[0].name = "all";
  for (std::size_t number = 1; !folded.empty(); ++number) {
    const std::string_view line = folded.substr(0, folded.find('\n'));
    folded.remove_prefix(std::min(folded.size(), line.size() + 1));
    if (line.empty()) continue;
    const std::size_t blank = line.rfind(' ');
    if (blank == std::string_view::npos) refuse(number, "no number");
    std::uint64_t bytes = 0;
    const char* const end = line.data() + line.size();
    const auto [stop, error] = std::from_chars(line.data() + blank + 1, end, bytes);
    if (error != std::errc() || stop != end) refuse(number, "no number at its end");
    constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    if (bytes > kMost - parts[0].bytes) refuse(number, "more than 2^63 - 1 bytes in all");
    if (bytes == 0) continue;
    parts[0].bytes += bytes;
    std::string_view names = line.substr(0, blank);
    std::size_t at = 0;
    for (std::size_t depth = 1; depth <= kDeepest; ++depth) {
      const std::string_view name = names.substr(0, names.find(';'));
      auto above = parts[at].above.find(name);
      if (above == parts[at].above.end()) {
        above = parts[at].above.emplace(name, parts.size()).first;
        parts.push_back({std::string(name), 0, depth, {}});
      }
      at = above->second;
      parts[at].bytes += bytes;
      if (name.size() == names.size()) break;
      names.remove_prefix(name.size() + 1);
    }
  }
  return parts;
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      default: out += static_cast<unsigned char>(c) < ' ' && c != '\t' ? ' ' : c;
    }
  }
  return out;
}

std::string decimal(double value) { return fixed_text(value, 2); }

/// As much of it as there is room for: whole characters of UTF-8.
std::string fitting(std::string_view name, double width) {
  const double letters = width / kLetter;
  if (letters < kFewestLetters) return {};
  if (static_cast<double>(name.size()) <= letters) return escaped(name);
  auto length = static_cast<std::size_t>(letters - 2);
  while (length > 0 && (static_cast<unsigned char>(name[length]) & 0xC0U) == 0x80U) --length;
  return escaped(name.substr(0, length)) + "..";
}

/// The same name has the same colour in every picture.
std::string colour(std::string_view name) {
  std::uint32_t hash = 2166136261U;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  return "hsl(" + std::to_string(10 + hash % 45) + ",80%," + std::to_string(58 + hash / 64 % 14) +
         "%)";
}

// A part that is clicked on becomes as wide as the picture, and what it lies on with it.
constexpr std::string_view kScript = R"js(
const all = [...document.querySelectorAll("g")];
const width = 1200;
function show(of) {
  const x = +of.dataset.x, w = +of.dataset.w;
  for (const g of all) {
    const under = +g.dataset.x <= x && +g.dataset.x + +g.dataset.w >= x + w;
    const left = under ? 0 : (g.dataset.x - x) / w * width;
    const wide = under ? width : g.dataset.w / w * width;
    const rect = g.querySelector("rect"), text = g.querySelector("text");
    g.style.display = left < -0.01 || left > width - 0.01 || wide < 0.1 ? "none" : "";
    rect.setAttribute("x", left);
    rect.setAttribute("width", Math.max(wide - 0.5, 0.1));
    text.setAttribute("x", left + 3);
    const name = g.dataset.name, fits = Math.floor(wide / 6.6);
    text.textContent = fits < 3 ? "" : name.length <= fits ? name : name.slice(0, fits - 2) + "..";
  }
}
for (const g of all) g.addEventListener("click", () => show(g));
)js";

class Picture {
 public:
  Picture(const std::vector<Part>& parts, std::string_view title) : parts_(parts) {
    for (const Part& part : parts) deepest_ = std::max(deepest_, part.depth);
    const double height = kTop + kRow * static_cast<double>(deepest_ + 1) + 10;
    const std::string size = decimal(kWidth) + " " + decimal(height);
    out_ = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + size +
           "\" font-family=\"monospace\" font-size=\"11\">\n<style>g:hover rect{stroke:#000}"
           "g{cursor:pointer}</style>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
           "<text x=\"600\" y=\"24\" text-anchor=\"middle\" font-size=\"16\">" +
           escaped(title) + "</text>\n";
  }

  /// Parts above follow their own, so no call is deep.
  std::string draw() && {
    std::vector<double> left(parts_.size(), 0);
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      write(parts_[i], left[i]);
      double next = left[i];
      for (const auto& [name, number] : parts_[i].above) {
        left[number] = next;
        next += width(parts_[number]);
      }
    }
    out_ += "<script><![CDATA[" + std::string(kScript) + "]]></script>\n</svg>\n";
    return std::move(out_);
  }

 private:
  double width(const Part& part) const {
    return kWidth * static_cast<double>(part.bytes) / static_cast<double>(parts_[0].bytes);
  }

  void write(const Part& part, double left) {
    const double wide = parts_[0].bytes != 0 ? width(part) : kWidth;
    if (wide < kNarrowest) return;
    const std::string top = decimal(kTop + kRow * static_cast<double>(deepest_ - part.depth));
    const std::string name = escaped(part.name);
    const std::string share = decimal(wide / kWidth * 100);
    out_ += "<g data-x=\"" + decimal(left) + "\" data-w=\"" + decimal(wide) + "\" data-name=\"" +
            name + "\"><title>" + name + " (" + format_bytes(part.bytes) + ", " +
            std::to_string(part.bytes) + " bytes, " + share + " %)</title><rect x=\"" +
            decimal(left) + "\" y=\"" + top + "\" width=\"" +
            decimal(std::max(wide - 0.5, kNarrowest)) + "\" height=\"16\" fill=\"" +
            colour(part.name) + "\"/><text x=\"" + decimal(left + 3) + "\" y=\"" +
            decimal(kTop + kRow * static_cast<double>(deepest_ - part.depth) + 12) + "\">" +
            fitting(part.name, wide) + "</text></g>\n";
  }

  const std::vector<Part>& parts_;
  std::size_t deepest_ = 0;
  std::string out_;
};

}  // namespace

std::string flame_graph(std::string_view folded, std::string_view title) {
  if (!is_utf8(folded)) throw ValueError("folded: not UTF-8");
  if (!is_utf8(title)) throw ValueError("title: not UTF-8");
  const std::vector<Part> parts = parts_of(folded);
  return Picture(parts, title).draw();
}

}  // namespace ember::inline v0::cuda
