#include "ember/fuse/rows.h"

#include <algorithm>
#include <bit>

#include "ember/fuse/step_text.h"
#include "ember/jit/texts.h"
#include "ember/jit/writer.h"

namespace ember::inline v0::fusion {
namespace {

using jit::filled;
using jit::type_name;
using Kind = Value::Kind;

/// Its accumulator in the kernel (ember/jit/prelude_rows.inc).
const char* accumulator_name(ops::RowReduction reduction) {
  switch (reduction) {
    using ops::RowReduction;
    case RowReduction::sum:
    case RowReduction::mean: return "Sum";
    case RowReduction::prod: return "Product";
    case RowReduction::largest: return "Largest";
    case RowReduction::smallest: return "Smallest";
    case RowReduction::any: return "Any";
    case RowReduction::all: return "All";
  }
  __builtin_unreachable();
}

/// Loads in flight at a time, of all inputs together: 16 bytes each, as a rule.
constexpr std::size_t kInFlight = 8;

std::string text_of(std::size_t number) { return std::to_string(number); }

}  // namespace

Sweeps::Sweeps(const Graph& graph, bool precise, bool whole)
    : precise_(precise),
      whole_(whole),
      inputs_(graph.inputs),
      row_inputs_(graph.row_inputs),
      steps_(graph.steps),
      phase_(graph.steps.size(), -1),
      step_lives_(graph.steps.size()),
      input_lives_(graph.inputs.size()) {
  const std::vector<std::uint8_t> first = merge_equal(steps_);
  for (std::size_t i = 0; i < steps_.size(); ++i) done_.push_back(first[i] == i);
  for (const std::uint8_t output : graph.outputs) outputs_.push_back(first[output]);
  find_phases();
  // From the end of each sweep to what it needs.
  for (int q = 0; q < static_cast<int>(sweeps_.size()); ++q) {
    Sweep& sweep = sweeps_[static_cast<std::size_t>(q)];
    std::vector<bool> now(steps_.size());
    for (const std::uint8_t each : sweep.reductions) need(steps_[each].operands[0], q, now);
    if (q + 1 == static_cast<int>(sweeps_.size()))
      for (const std::uint8_t output : outputs_)
        if (!steps_[output].of_row) need({Kind::step, output}, q, now);
    for (std::size_t i = 0; i < steps_.size(); ++i)
      if (now[i]) sweep.steps.push_back(static_cast<std::uint8_t>(i));
  }
}

void Sweeps::find_phases() {
  int last = 0;
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const Step& step = steps_[i];
    const bool sweeps = !step.of_row || step.kind == Step::Kind::reduction;
    int phase = sweeps ? 0 : -1;
    for (std::size_t k = 0; k < step.count; ++k) {
      if (step.operands[k].kind != Kind::step) continue;
      const std::uint8_t from = step.operands[k].index;
      const int there = phase_[from] + (steps_[from].of_row && sweeps ? 1 : 0);
      phase = std::max(phase, there);
    }
    phase_[i] = phase;
    if (!done_[i]) continue;
    const bool is_output = std::find(outputs_.begin(), outputs_.end(), i) != outputs_.end();
    if (step.kind == Step::Kind::reduction || (is_output && !step.of_row))
      last = std::max(last, phase);
  }
  sweeps_.resize(static_cast<std::size_t>(last) + 1);
  for (std::size_t i = 0; i < steps_.size(); ++i)
    if (done_[i] && steps_[i].kind == Step::Kind::reduction)
      sweeps_[static_cast<std::size_t>(phase_[i])].reductions.push_back(
          static_cast<std::uint8_t>(i));
}

bool Sweeps::is_of_element(const Value& value) const {
  switch (value.kind) {
    case Kind::step: return !steps_[value.index].of_row;
    case Kind::input: return !is_row_input(value.index);
    case Kind::number: return false;
  }
  __builtin_unreachable();
}

Sweeps::Life& Sweeps::life_of(const Value& value) {
  return value.kind == Kind::step ? step_lives_[value.index] : input_lives_[value.index];
}

/// Notes that a sweep needs a value, and what that needs. `now`: the steps that it computes.
void Sweeps::need(const Value& value, int sweep, std::vector<bool>& now) {
  if (!is_of_element(value)) return;
  Life& life = life_of(value);
  const bool there = life.last == sweep || (whole_ && life.first >= 0);
  if (life.first < 0) life.first = sweep;
  life.last = sweep;
  if (there) return;
  if (value.kind == Kind::input) {
    sweeps_[static_cast<std::size_t>(sweep)].loads.push_back(value.index);
    return;
  }
  now[value.index] = true;
  const Step& step = steps_[value.index];
  for (std::size_t k = 0; k < step.count; ++k) need(step.operands[k], sweep, now);
}

Sweeps::Needs Sweeps::needs() const {
  Needs made;
  for (std::size_t i = 0; i < steps_.size(); ++i)
    if (step_lives_[i].crosses()) made.kept_by_host += item_size(result_of(steps_[i], precise_));
  for (int q = 0; q + 1 < static_cast<int>(sweeps_.size()); ++q) {
    std::size_t bytes = 0;
    const auto add = [&](const Life& life, Dtype dtype) {
      if (life.first <= q && life.first >= 0 && life.last > q) bytes += item_size(dtype);
    };
    for (std::size_t i = 0; i < steps_.size(); ++i)
      add(step_lives_[i], result_of(steps_[i], precise_));
    for (std::size_t k = 0; k < inputs_.size(); ++k) add(input_lives_[k], inputs_[k]);
    made.kept = std::max(made.kept, bytes);
  }
  made.loads_beside =
      made.kept == 0 || std::any_of(sweeps_.begin() + 1, sweeps_.end(),
                                    [](const Sweep& each) { return !each.loads.empty(); });
  return made;
}

// ---- As text

/// s0 and x0 for what is there once for a row, or in this sweep only; k0 for what was kept of an
/// earlier one. Those of elements are asked for the one at `at`.
std::string Sweeps::name_in(const Value& value, int sweep) const {
  if (!is_of_element(value)) return name_of(value);
  if (value.kind == Kind::input) return name_of(value) + "[at]";
  const bool kept = whole_ && step_lives_[value.index].first < sweep;
  return kept ? "k" + text_of(value.index) + "[at]" : name_of(value);
}

std::string Sweeps::reduction_type(const Step& step) const {
  return filled("$0<$1>",
                {accumulator_name(step.reduction), type_name(computed_of(step, precise_))});
}

std::string Sweeps::statements() const {
  std::string text;
  for (std::size_t k = 0; k < inputs_.size(); ++k)
    text += filled(is_row_input(k) ? "  const auto x$0 = element_at(i$0);\n"
                                   : "  typename W::template Loaded<I$0> x$0(i$0);\n",
                   {text_of(k)});
  std::string row_outputs;
  for (std::size_t k = 0; k < outputs_.size(); ++k)
    if (steps_[outputs_[k]].of_row)
      row_outputs +=
          filled("    *o$0 = ::ember::convert<O$0>(s$1);\n", {text_of(k), text_of(outputs_[k])});
    else
      text += filled("  typename W::template Stored<O$0> y$0(o$0);\n", {text_of(k)});
  for (std::size_t i = 0; i < steps_.size(); ++i)
    if (whole_ && step_lives_[i].crosses())
      text += filled("  typename W::template Kept<$0> k$1;\n",
                     {type_name(result_of(steps_[i], precise_)), text_of(i)});
  text += row_steps(-1);
  for (int q = 0; q < static_cast<int>(sweeps_.size()); ++q) text += sweep_text(q) + row_steps(q);
  if (!row_outputs.empty()) text += filled("  if (w.writes()) {\n$0  }\n", {row_outputs});
  return text;
}

/// A division by what is the same for all elements of a row is done for several of them at once.
/// What is there of these is then a variable for all of them.
std::string Sweeps::sweep_text(int at) const {
  const Sweep& sweep = sweeps_[static_cast<std::size_t>(at)];
  const bool last = at + 1 == static_cast<int>(sweeps_.size());
  const auto is_shared = [&](std::uint8_t step) {
    return divides(steps_[step]) && !is_of_element(steps_[step].operands[1]);
  };
  const bool divided = std::any_of(sweep.steps.begin(), sweep.steps.end(), is_shared);
  const auto names = [&](const Value& value) {
    const bool variable =
        divided && value.kind == Kind::step &&
        std::find(sweep.steps.begin(), sweep.steps.end(), value.index) != sweep.steps.end();
    return variable ? name_of(value) + "[at]" : name_in(value, at);
  };
  std::string text;
  for (const std::uint8_t each : sweep.reductions)
    text += filled("  typename W::template Gathered<$0> a$1;\n",
                   {reduction_type(steps_[each]), text_of(each)});
  std::string loads;
  for (const std::uint8_t each : sweep.loads) loads += filled(" x$0.load(at);", {text_of(each)});
  std::string variables, all, computes;
  const auto close = [&] {
    if (!computes.empty()) all += filled("    w.each(at, [&](auto at) {\n$0    });\n", {computes});
    computes.clear();
  };
  for (const std::uint8_t each : sweep.steps) {
    const std::string n = text_of(each);
    if (divided)
      variables += filled("    typename W::template Each<$0> s$1;\n",
                          {type_name(result_of(steps_[each], precise_)), n});
    if (is_shared(each)) {
      close();
      all += division(steps_, each, precise_, names);
    } else {
      computes += filled(divided ? "    s$0[at] = $1;\n" : "    const auto s$0 = $1;\n",
                         {n, expression(steps_, each, precise_, names)});
    }
    if (whole_ && step_lives_[each].crosses())
      computes += filled("    k$0.put(at, $1);\n", {n, names({Kind::step, each})});
  }
  for (const std::uint8_t each : sweep.reductions)
    computes += filled("    a$0.add(at, ::ember::convert<$1>($2));\n",
                       {text_of(each), type_name(computed_of(steps_[each], precise_)),
                        names(steps_[each].operands[0])});
  std::string stores;
  for (std::size_t k = 0; last && k < outputs_.size(); ++k) {
    if (steps_[outputs_[k]].of_row) continue;
    computes += filled("    y$0.put(at, ::ember::convert<O$0>($1));\n",
                       {text_of(k), names({Kind::step, outputs_[k]})});
    stores += filled(" y$0.store(at);", {text_of(k)});
  }
  close();
  const std::size_t in_flight =
      kInFlight / std::clamp<std::size_t>(sweep.loads.size(), 1, kInFlight);
  return text + filled(
                    "  w.template sweep<$0>([&](auto at) {$1 }, [&](auto at) {\n$2"
                    "  }, [&](auto at) {$3 });\n",
                    {text_of(in_flight), loads, variables + all, stores});
}

/// Those that can be done behind a sweep, and not before.
std::string Sweeps::row_steps(int behind) const {
  std::string text;
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const Step& step = steps_[i];
    if (!step.of_row || !done_[i] || phase_[i] != behind) continue;
    const bool mean = step.reduction == ops::RowReduction::mean;
    const std::string value =
        step.kind == Step::Kind::reduction
            ? filled("w.template result<$0, $1>(a$2)",
                     {type_name(result_of(step, precise_)), mean ? "true" : "false", text_of(i)})
            : expression(steps_, i, precise_, &name_of);
    text += filled("  const auto s$0 = $1;\n", {text_of(i), value});
  }
  return text;
}

namespace {

constexpr std::int64_t kWarp = 32;
constexpr std::int64_t kMostLanes = 1024;

/// What one row asks of a multiprocessor if so many lanes share it.
class RowOnLanes {
 public:
  RowOnLanes(std::int64_t length, int pack, const Sweeps::Needs& needs)
      : pack_(pack),
        units_(length / pack),
        kept_(needs.kept),
        // 16-bit elements take more registers while they are computed than when they are kept.
        beside_(needs.loads_beside || pack > 4 ? 64 : 32) {}

  std::int64_t units() const { return units_; }
  /// What each of `n` gets, up to a power of two: packs of a lane, or lanes of so many packs.
  std::int64_t share_of(std::int64_t n) const { return up((units_ + n - 1) / n); }
  std::int64_t lanes_of_one_warp() const { return std::min(kWarp, up(units_)); }

  /// Blocks that a multiprocessor has at once.
  std::size_t blocks(std::int64_t packs, std::int64_t threads) const {
    constexpr std::size_t kRegisters = 65536, kMostBlocks = 16;
    return std::min(kRegisters / (registers(packs) * static_cast<std::size_t>(threads)),
                    kMostBlocks);
  }
  /// Threads that it has at once, if a block's share one row.
  std::size_t threads(std::int64_t lanes) const {
    return blocks(share_of(lanes), lanes) * static_cast<std::size_t>(lanes);
  }
  bool fits(std::int64_t lanes) const {
    constexpr std::int64_t kMostElements = 64, kMostPacks = 16;
    constexpr std::size_t kMostRegisters = 128;
    const std::int64_t packs = share_of(lanes);
    return packs <= std::min(kMostElements / pack_, kMostPacks) &&
           registers(packs) <= kMostRegisters && blocks(packs, lanes) > 0;
  }

 private:
  static std::int64_t up(std::int64_t n) {
    return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(n)));
  }
  std::size_t registers(std::int64_t packs) const {
    return beside_ + static_cast<std::size_t>(packs * pack_) * kept_ / 4;
  }

  const std::int64_t pack_, units_;
  const std::size_t kept_, beside_;
};

/// Lanes of a block that has one row. Blocks are small, since all that one has is loaded together,
/// and then computed together: of several, some are loaded while others are computed.
std::int64_t lanes_of_block(const RowOnLanes& row, bool few, std::int64_t usual_packs,
                            std::int64_t usual_lanes) {
  std::int64_t lanes = std::clamp(row.share_of(usual_packs), 2 * kWarp, usual_lanes);
  // So many threads as few rows get may have no room for what a row keeps.
  while (few && lanes > 2 * kWarp && !row.fits(lanes)) lanes /= 2;
  // Larger, if a row would not fit, or if a multiprocessor then has more threads.
  while (lanes < kMostLanes && (!row.fits(lanes) || (row.share_of(lanes) > usual_packs &&
                                                     row.threads(2 * lanes) > row.threads(lanes))))
    lanes *= 2;
  return lanes;
}

}  // namespace

jit::RowPlan share_rows(std::int64_t rows, std::int64_t length, int pack,
                        const Sweeps::Needs& needs) {
  constexpr std::int64_t kFewRows = 1024;  // warps for these would leave multiprocessors idle
  constexpr std::int64_t kUsualLanes = 256;
  const RowOnLanes row(length, pack, needs);
  const bool few = rows < kFewRows;
  const std::int64_t usual_packs = few ? 1 : 4;
  const bool by_warp =
      row.units() <= (few ? 2 : usual_packs) * kWarp && row.fits(row.lanes_of_one_warp());
  std::int64_t lanes = by_warp
                           ? row.lanes_of_one_warp()
                           : lanes_of_block(row, few, usual_packs, few ? kMostLanes : kUsualLanes);
  std::int64_t packs = row.share_of(lanes);
  jit::RowPlan made;
  made.used = true;
  made.whole = row.fits(lanes);
  if (!made.whole) {
    packs = 4;
    lanes = std::min(lanes, kUsualLanes);
  }
  const std::int64_t threads = by_warp ? 4 * kWarp : lanes;
  made.full = made.whole ? row.units() == lanes * packs : row.units() % (lanes * packs) == 0;
  made.pack = static_cast<std::uint8_t>(pack);
  made.packs = static_cast<std::uint8_t>(packs);
  made.lanes = static_cast<std::uint16_t>(lanes);
  made.threads = static_cast<std::uint16_t>(threads);
  made.blocks = static_cast<std::uint8_t>(std::max<std::size_t>(row.blocks(packs, threads), 1));
  return made;
}

}  // namespace ember::inline v0::fusion
