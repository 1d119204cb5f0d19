"use strict";
(() => {
const kLeft = 84, kAxis = 22, kChart = 0.32, kRow = 16;
const byId = (id) => document.getElementById(id);
const canvas = byId("canvas"), context = canvas.getContext("2d"), tip = byId("tip");
const [shown, before] = JSON.parse(byId("data").textContent);

// ---- Texts

function size(bytes) {
  const units = ["bytes", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0, value = Math.abs(bytes);
  while (value >= 1024 && unit < 4) { value /= 1024; ++unit; }
  return `${bytes < 0 ? "-" : ""}${unit === 0 ? value : +value.toFixed(2)} ${units[unit]}`;
}
function time(us) {
  const length = Math.abs(us);
  if (length < 1e3) return `${+us.toFixed(1)} \u00b5s`;
  return length < 1e6 ? `${+(us / 1e3).toFixed(3)} ms` : `${+(us / 1e6).toFixed(4)} s`;
}
const hex = (address) => "0x" + address.toString(16);
function frameText(snapshot, frame) {
  const [name, file, line] = snapshot.frames[frame].split("\n");
  return file ? `${name} (${file}:${line})` : name;
}
const stackLines = (snapshot, stack) => snapshot.stacks[stack].map((frame) => frameText(snapshot, frame));

// ---- What is there: what was allocated when, and the bytes of a device over time

const kActive = "active_allocated", kPending = "active_pending_free";

/// From the history of a device and from the blocks that are there at its end. An allocation whose
/// beginning or end lies outside of the history lasts from its first or to its last moment.
function makeDevice(snapshot, device) {
  const trace = snapshot.traces[device] || [];
  const segments = snapshot.segments.filter((segment) => segment[0] === device);
  const n = trace.length;
  const first = n > 0 ? trace[0][4] || 0 : 0;
  const times = Float64Array.from(trace, (entry) => (entry[4] || 0) - first);
  for (let i = 1; i < n; ++i) if (times[i] < times[i - 1]) times[i] = times[i - 1];
  const last = Math.max(n > 0 ? times[n - 1] : 0, 1);
  const list = [], open = new Map(), ranges = [];
  const activeBy = new Float64Array(n), reservedBy = new Float64Array(n);
  const add = (at, bytes, begin, end, stream, tag, stack, pool) =>
    list.push({ at, bytes, begin, end, stream, tag: tag || "", stack, pool, freed: end }) - 1;
  const pools = segments.map((segment) => [segment[1], segment[1] + segment[2], segment[5]])
    .sort((a, b) => a[0] - b[0]);
  const poolOf = (at) => {
    let low = 0, high = pools.length;
    while (low < high) { const m = (low + high) >> 1; if (pools[m][1] <= at) low = m + 1; else high = m; }
    return low < pools.length && pools[low][0] <= at ? pools[low][2] : "";
  };
  for (let i = 0; i < n; ++i) {
    const [action, at, bytes, stream, , tag, stack] = trace[i];
    if (action === "alloc") {
      open.set(at, add(at, bytes, times[i], Infinity, stream, tag, stack, poolOf(at)));
      activeBy[i] = bytes;
    } else if (action === "free_requested") {
      if (open.has(at)) list[open.get(at)].freed = times[i];
    } else if (action === "free_completed") {
      const known = open.get(at);
      if (known === undefined) add(at, bytes, -Infinity, times[i], stream, tag, 0, poolOf(at));
      else { list[known].end = times[i]; open.delete(at); }
      activeBy[i] = -bytes;
    } else if (action === "segment_alloc" || action === "segment_map") {
      ranges.push([at, at + bytes]);
      reservedBy[i] = bytes;
    } else if (action === "segment_free" || action === "segment_unmap") {
      ranges.push([at, at + bytes]);
      reservedBy[i] = -bytes;
    }
  }
  let activeNow = 0, reservedNow = 0;
  for (const [, address, total, stream, , pool, blocks] of segments) {
    reservedNow += total;
    ranges.push([address, address + total]);
    for (const [at, bytes, asked, state, tag, stack] of blocks) {
      if (state !== kActive && state !== kPending) continue;
      const known = open.get(at);
      activeNow += known === undefined ? asked || bytes : list[known].bytes;
      if (known === undefined) add(at, asked || bytes, -Infinity, Infinity, stream, tag, stack, pool);
      else if (tag) list[known].tag = tag;
    }
  }
  // What is known is the end; the beginning is that less everything since.
  const active = new Float64Array(n + 1), reserved = new Float64Array(n + 1);
  active[n] = activeNow;
  reserved[n] = reservedNow;
  for (let i = n; i-- > 0;) {
    active[i] = active[i + 1] - activeBy[i];
    reserved[i] = reserved[i + 1] - reservedBy[i];
  }
  for (const each of list) ranges.push([each.at, each.at + each.bytes]);
  ranges.sort((a, b) => a[0] - b[0]);
  const places = [];  // ranges of addresses one behind the other, without what lies between
  let height = 0;
  for (const [low, high] of ranges) {
    const top = places[places.length - 1];
    if (top && low <= top.high) {
      if (high > top.high) { height += high - top.high; top.high = high; }
    } else {
      places.push({ low, high, y: height });
      height += high - low;
    }
  }
  const placeOf = (at) => {
    let low = 0, high = places.length;
    while (low < high) { const m = (low + high) >> 1; if (places[m].low <= at) low = m + 1; else high = m; }
    return places[low - 1].y + at - places[low - 1].low;
  };
  for (const each of list) each.y = placeOf(each.at);
  list.sort((a, b) => a.begin - b.begin);
  return { device, times, active, reserved, list, segments, last, places, height: Math.max(height, 1), n };
}

const indices = new Set(shown.segments.map((segment) => segment[0]));
shown.traces.forEach((trace, device) => { if (trace.length > 0) indices.add(device); });
const devices = [...indices].sort((a, b) => a - b).map((device) => makeDevice(shown, device));
if (devices.length === 0) devices.push(makeDevice(shown, 0));
let device = devices[0];

// ---- Colors: by what an allocation is grouped

let group = "stack";
function keyOf(each) {
  if (group === "stream") return `stream ${each.stream ? hex(each.stream) : "default"}`;
  if (group === "tag") return each.tag || "(no tag)";
  if (group === "pool") return each.pool === "" || each.pool === "0.0" ? "ordinary" : `pool ${each.pool}`;
  return each.stack;
}
const kFaded = 0xffe4e0dc | 0, kFree = 0xfff4f1ee | 0;
const colors = new Map();
function colorOf(key) {  // as a pixel: alpha, blue, green, red
  let color = colors.get(key);
  if (color !== undefined) return color;
  let hash = 7;
  for (const letter of String(key)) hash = Math.imul(hash, 31) + letter.charCodeAt(0) | 0;
  hash = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d);
  const hue = ((hash >>> 8) % 360) / 60, light = 0.56 + ((hash >>> 20) & 7) * 0.02;
  const part = (offset) => {
    const k = (offset + hue * 2) % 12;
    return Math.round(255 * (light - 0.5 * Math.min(light, 1 - light) * Math.max(-1, Math.min(k - 3, 9 - k, 1))));
  };
  color = (255 << 24) | (part(4) << 16) | (part(8) << 8) | part(0);
  colors.set(key, color);
  return color;
}
let wanted = "", stackHits = [];
function isHit(each) {
  return wanted === "" || stackHits[each.stack] || (each.tag || "").toLowerCase().includes(wanted);
}
function paintKeys() { for (const each of devices.flatMap((one) => one.list)) { each.color = colorOf(keyOf(each)); each.hit = isHit(each); } }

// ---- The view. Rectangles are written to pixels by ourselves: none is drawn twice, so a picture
// costs its pixels and one step for each allocation, and the pixels know what they show.

const view = { tab: "time", t0: 0, t1: 1, y0: 0, y1: 1, top: 0 };
let width = 1, tall = 1, image = null, pixels = null, owners = null, drawn = 0, hovered = -1, drawing = false;
const items = [];  // what the pixels show, by number

function draw() {
  if (drawing) return;
  drawing = true;
  requestAnimationFrame(() => { drawing = false; paint(); });
}
function rectangle(x0, y0, x1, y1, color, owner) {
  const left = Math.max(kLeft, Math.floor(x0)), right = Math.min(width, Math.max(Math.floor(x0) + 1, Math.floor(x1)));
  const top = Math.max(0, Math.floor(y0)), bottom = Math.min(tall, Math.max(Math.floor(y0) + 1, Math.floor(y1)));
  if (left >= right || top >= bottom) return;
  ++drawn;
  for (let y = top; y < bottom; ++y) {
    const from = y * width;
    pixels.fill(color, from + left, from + right);
    owners.fill(owner, from + left, from + right);
  }
}
const chartHeight = () => Math.floor(tall * kChart);
const timeAt = (x) => view.t0 + (x - kLeft) / (width - kLeft) * (view.t1 - view.t0);
const xOf = (t) => kLeft + (t - view.t0) / (view.t1 - view.t0) * (width - kLeft);

function paintAllocations() {
  const top = chartHeight() + kAxis, scale = (tall - top) / (view.y1 - view.y0);
  const yOf = (y) => top + (y - view.y0) * scale;
  for (const place of device.places) {
    const y0 = yOf(place.y), y1 = yOf(place.y + place.high - place.low);
    if (y1 > top && y0 < tall) rectangle(kLeft, Math.max(top, y0), width, y1, kFree, -1);
  }
  const list = device.list, across = (width - kLeft) / (view.t1 - view.t0);
  for (let i = 0; i < list.length; ++i) {
    const each = list[i];
    if (each.begin > view.t1) break;
    if (each.end < view.t0 || each.y + each.bytes < view.y0 || each.y > view.y1) continue;
    const y0 = yOf(each.y);
    rectangle(kLeft + (Math.max(each.begin, view.t0) - view.t0) * across, Math.max(top, y0),
              kLeft + (Math.min(each.end, view.t1) - view.t0) * across, yOf(each.y + each.bytes),
              each.hit ? each.color : kFaded, i);
    items[i] = each;
  }
}
function above(numbers, value) {
  let low = 0, high = numbers.length;
  while (low < high) { const m = (low + high) >> 1; if (numbers[m] <= value) low = m + 1; else high = m; }
  return low;
}
/// The largest of each column: a peak is seen however short it is.
function paintChart() {
  const bottom = chartHeight(), { times, active, reserved } = device;
  let most = 1;
  for (const value of reserved) if (value > most) most = value;
  for (const value of active) if (value > most) most = value;
  const scale = (bottom - 24) / most;
  for (let x = kLeft, at = above(times, view.t0); x < width; ++x) {
    const next = above(times, timeAt(x + 1));
    let high = active[at], held = reserved[at];
    for (let i = at + 1; i <= next; ++i) {
      if (active[i] > high) high = active[i];
      if (reserved[i] > held) held = reserved[i];
    }
    at = next;
    rectangle(x, bottom - held * scale, x + 1, bottom, 0xffe8ddd0 | 0, -1);
    rectangle(x, bottom - high * scale, x + 1, bottom, 0xffd08f5b | 0, -1);
  }
  return most;
}
function paintSegments() {
  let largest = 1;
  for (const segment of device.segments) largest = Math.max(largest, segment[2]);
  const scale = (width - kLeft - 10) / largest;
  let number = 0;
  device.segments.forEach((segment, row) => {
    const y = kAxis + row * kRow - view.top;
    const [, address, total, stream, , pool, blocks] = segment;
    if (y + kRow < 0 || y > tall) return;
    rectangle(kLeft, y, kLeft + total * scale, y + kRow - 3, kFree, number);
    items[number++] = { segment };
    for (const [at, bytes, asked, state, tag, stack] of blocks) {
      if (state !== kActive && state !== kPending) continue;
      const block = { at, bytes: asked || bytes, stream, tag, stack, pool, state };
      const x = kLeft + (at - address) * scale;
      rectangle(x, y, Math.max(x + 1, kLeft + (at - address + bytes) * scale - (bytes * scale > 4 ? 1 : 0)),
                y + kRow - 3, isHit(block) ? colorOf(keyOf(block)) : kFaded, number);
      items[number++] = block;
    }
  });
}
function paint() {
  if (view.tab === "holders") return;
  const box = canvas.getBoundingClientRect();
  if (width !== Math.floor(box.width) || tall !== Math.floor(box.height) || image === null) {
    width = canvas.width = Math.max(kLeft + 1, Math.floor(box.width));
    tall = canvas.height = Math.max(60, Math.floor(box.height));
    image = context.createImageData(width, tall);
    pixels = new Int32Array(image.data.buffer);
    owners = new Int32Array(width * tall);
  }
  drawn = 0;
  pixels.fill(-1);
  owners.fill(-1);
  context.font = "12px system-ui, sans-serif";
  if (view.tab === "segments") {
    paintSegments();
    context.putImageData(image, 0, 0);
    context.fillStyle = "#344054";
    device.segments.forEach((segment, row) => {
      const y = kAxis + row * kRow - view.top;
      if (y > 0 && y < tall) context.fillText(size(segment[2]), 6, y + 11, kLeft - 10);
    });
    return;
  }
  paintAllocations();
  const most = paintChart();
  context.putImageData(image, 0, 0);
  context.fillStyle = "#344054";
  context.fillText(size(most), 6, 30, kLeft - 10);
  context.fillText("0", 6, chartHeight(), kLeft - 10);
  context.fillText("addresses", 6, chartHeight() + kAxis + 14, kLeft - 10);
  const rough = (view.t1 - view.t0) / Math.max(1, (width - kLeft) / 110), power = 10 ** Math.floor(Math.log10(rough));
  const step = power * (rough / power <= 2 ? 2 : rough / power <= 5 ? 5 : 10);
  for (let t = Math.ceil(view.t0 / step) * step; t <= view.t1; t += step)
    context.fillText(time(t), xOf(t) + 2, chartHeight() + 15);
  context.fillText("active (dark) and reserved (light) bytes", kLeft + 4, 12);
}

// ---- Who holds how much

function holdings(snapshot, index) {
  const held = new Map();
  for (const [of, , , stream, , pool, blocks] of snapshot.segments) {
    if (of !== index) continue;
    for (const [, bytes, asked, state, tag, stack] of blocks) {
      if (state !== kActive && state !== kPending) continue;
      const each = { stream, tag: tag || "", stack, pool };
      const key = group === "stack" ? stackLines(snapshot, stack).join("\n") : String(keyOf(each));
      const row = held.get(key) || { key, bytes: 0, count: 0, tag: each.tag };
      row.bytes += asked || bytes;
      ++row.count;
      held.set(key, row);
    }
  }
  return held;
}
function holders() {
  const now = holdings(shown, device.device), rows = [...now.values()].map((row) => ({ ...row, grew: row.bytes }));
  if (before) {
    const then = holdings(before, device.device);
    for (const row of rows) row.grew -= (then.get(row.key) || { bytes: 0 }).bytes;
    for (const [key, row] of then) if (!now.has(key)) rows.push({ key, bytes: 0, count: 0, tag: row.tag, grew: -row.bytes });
    rows.sort((a, b) => Math.abs(b.grew) - Math.abs(a.grew) || b.bytes - a.bytes);
  } else {
    rows.sort((a, b) => b.bytes - a.bytes);
  }
  return rows.filter((row) => wanted === "" || row.key.toLowerCase().includes(wanted) || row.tag.toLowerCase().includes(wanted));
}
function showHolders() {
  const kMost = 1000, rows = holders();
  const table = document.createElement("table");
  const put = (values, kind, whole) => {
    const line = document.createElement("tr");
    for (const value of values) {
      const cell = document.createElement(kind);
      cell.textContent = value;
      line.append(cell);
    }
    if (whole !== undefined) {
      line.className = "row";
      line.addEventListener("click", () => { byId("chosen").textContent = whole || "(no stack was recorded)"; });
    }
    table.append(line);
  };
  put([...(before ? ["grew by"] : []), "bytes", "blocks", group], "th");
  for (const row of rows.slice(0, kMost))
    put([...(before ? [size(row.grew)] : []), size(row.bytes), row.count, row.key.split("\n")[0] || "(no stack)"], "td", row.key);
  if (rows.length > kMost) put([`${rows.length - kMost} more`], "td");
  byId("table").replaceChildren(table);
}

// ---- What the user does

function describe(each) {
  if (each.segment) {
    const [, address, total, stream, kind, pool, blocks] = each.segment;
    return [`segment of ${size(total)}, ${kind || ""}`, `at ${hex(address)}, ${blocks.length} blocks`,
      `stream ${stream ? hex(stream) : "default"}${pool && pool !== "0.0" ? ", pool " + pool : ""}`];
  }
  const lines = [`${size(each.bytes)} (${each.bytes} bytes) at ${hex(each.at)}`,
    `stream ${each.stream ? hex(each.stream) : "default"}${each.pool && each.pool !== "0.0" ? ", pool " + each.pool : ""}`];
  if (each.tag) lines.push(`tag ${each.tag}`);
  if (each.state === kPending || each.freed < each.end) lines.push("freed, and kept until its streams are done");
  if (each.begin !== undefined)
    lines.push(`from ${each.begin === -Infinity ? "before the history" : time(each.begin)} to ${each.end === Infinity ? "its end" : time(each.end)}`);
  const stack = stackLines(shown, each.stack);
  return lines.concat(stack.length > 0 ? stack : ["(no stack was recorded)"]);
}
function at(x, y) {
  if (view.tab === "holders" || owners === null || x < 0 || y < 0 || x >= width || y >= tall) return null;
  const number = owners[Math.floor(y) * width + Math.floor(x)];
  return number < 0 ? null : items[number];
}
const whole = (low, high, length, least) => {
  const span = Math.min(Math.max(high - low, least), length * 1.1), middle = (low + high) / 2;
  const from = Math.min(Math.max(middle - span / 2, -length * 0.05), length * 1.05 - span);
  return [from, from + span];
};
function moveTo(t0, t1, y0, y1) {
  [view.t0, view.t1] = whole(t0, t1, device.last, 0.5);
  [view.y0, view.y1] = whole(y0, y1, device.height, 64);
  draw();
}
function scrollTo(top) {
  view.top = Math.max(0, Math.min(top, device.segments.length * kRow + 2 * kAxis - tall));
  draw();
}
function everything() {
  view.top = 0;
  moveTo(-device.last * 0.01, device.last * 1.01, -device.height * 0.005, device.height * 1.005);
}
function open(tab) {
  view.tab = tab;
  for (const each of ["time", "segments", "holders"]) byId("tab-" + each).className = each === tab ? "on" : "";
  canvas.style.display = tab === "holders" ? "none" : "block";
  byId("table").style.display = tab === "holders" ? "block" : "none";
  tip.style.display = "none";
  if (tab === "holders") showHolders(); else draw();
}
function refresh() {
  paintKeys();
  if (view.tab === "holders") showHolders(); else draw();
}
function search(text) {
  wanted = text.toLowerCase();
  const hits = shown.frames.map((frame) => frame.toLowerCase().includes(wanted));
  stackHits = shown.stacks.map((stack) => stack.some((frame) => hits[frame]));
  refresh();
}
canvas.addEventListener("wheel", (event) => {
  event.preventDefault();
  const by = (event.deltaY || event.deltaX) * (event.deltaMode === 1 ? 16 : 1);
  if (view.tab === "segments") return scrollTo(view.top + by);
  const factor = Math.exp(Math.max(-1, Math.min(1, by * 0.002)));
  if (event.shiftKey) {
    const top = chartHeight() + kAxis;
    const y = view.y0 + Math.max(0, event.offsetY - top) / (tall - top) * (view.y1 - view.y0);
    moveTo(view.t0, view.t1, y - (y - view.y0) * factor, y + (view.y1 - y) * factor);
  } else {
    const t = timeAt(Math.max(kLeft, event.offsetX));
    moveTo(t - (t - view.t0) * factor, t + (view.t1 - t) * factor, view.y0, view.y1);
  }
}, { passive: false });
let held = null, moved = false;
canvas.addEventListener("mousedown", (event) => {
  held = { x: event.offsetX, y: event.offsetY, ...view };
  moved = false;
});
window.addEventListener("mousemove", (event) => {
  const box = canvas.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
  if (held) {
    if (Math.abs(x - held.x) + Math.abs(y - held.y) > 3) moved = true;
    tip.style.display = "none";
    if (view.tab === "segments") return scrollTo(held.top + held.y - y);
    const dt = (held.x - x) / (width - kLeft) * (held.t1 - held.t0);
    const dy = (held.y - y) / (tall - chartHeight() - kAxis) * (held.y1 - held.y0);
    return moveTo(held.t0 + dt, held.t1 + dt, held.y0 + dy, held.y1 + dy);
  }
  const each = event.target === canvas ? at(x, y) : null;
  tip.style.display = each ? "block" : "none";
  if (!each) return;
  tip.textContent = describe(each).slice(0, 24).join("\n");
  tip.style.left = `${Math.max(0, Math.min(x + 12, width - tip.offsetWidth - 8))}px`;
  tip.style.top = `${Math.max(0, Math.min(y + 14, tall - tip.offsetHeight - 8))}px`;
});
window.addEventListener("mouseup", (event) => {
  if (held && !moved && event.target === canvas) {
    const each = at(event.offsetX, event.offsetY);
    if (each) byId("chosen").textContent = describe(each).join("\n");
  }
  held = null;
});
const box = byId("search");
box.addEventListener("input", () => search(box.value));
for (const tab of ["time", "segments", "holders"]) byId("tab-" + tab).addEventListener("click", () => open(tab));
byId("all").addEventListener("click", everything);
byId("group").addEventListener("change", (event) => { group = event.target.value; refresh(); });
byId("device").addEventListener("change", (event) => {
  device = devices[event.target.selectedIndex];
  everything();
  refresh();
});
window.addEventListener("keydown", (event) => {
  if (event.target === box || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "/") { event.preventDefault(); box.focus(); }
  if (event.key === "0") everything();
});
window.addEventListener("resize", draw);

for (const each of devices) byId("device").add(new Option(`cuda:${each.device}`));
byId("title").textContent = before ? `${before.name} \u2192 ${shown.name}` : shown.name;
document.title = `ember memory: ${byId("title").textContent}`;
const sum = (values) => values.reduce((total, value) => total + value, 0);
byId("counts").textContent = `${sum(devices.map((each) => each.n)).toLocaleString("en")} events, ` +
  `${sum(devices.map((each) => each.list.length)).toLocaleString("en")} allocations, ` +
  `${shown.segments.length.toLocaleString("en")} segments`;
search("");
everything();
open("time");

// For scripts: what is shown.
window.memory = {
  get events() { return sum(devices.map((each) => each.n)); },
  get drawn() { return drawn; },
  get view() { return { ...view }; },
  get active() { return [...device.active]; },
  get reserved() { return [...device.reserved]; },
  get holders() { return holders(); },
  at(x, y) { const each = at(x, y); return each && describe(each); },
};
})();
