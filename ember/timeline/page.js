"use strict";
(() => {
const kRow = 18, kGap = 6, kHeading = 20, kAxis = 24, kNames = 150;
// By kind; a kernel's hue comes from its name.
const kColors = ["#7c8fd0", "#3fa07a", "#b08a3c", "#8d6cab", "#d92d20", "#c9d1db", "#5b6675"];
const kWait = 4, kRange = 5, kMark = 6;
const byId = (id) => document.getElementById(id);
const canvas = byId("canvas"), context = canvas.getContext("2d"), tip = byId("tip");
const data = JSON.parse(byId("data").textContent);

// ---- What is there

function hueOf(name) {
  let hash = 0;
  for (let i = 0; i < name.length; ++i) hash = (hash * 31 + name.charCodeAt(i)) | 0;
  return 185 + (((hash % 110) + 110) % 110);
}
const labels = data.labels.map(([name, kind]) => ({
  name, kind, color: kind === 0 ? `hsl(${hueOf(name)} 48% 62%)` : kColors[kind], hit: false }));

// A row holds slices that do not overlap, so their begins and their ends both ascend.
function makeRow() { return { track: null, y: 0, slices: [], begin: null, end: null, hits: null }; }

function makeTrack(given, index) {
  const n = given.label.length;
  const track = { index, device: given.device, name: given.name, n, begin: new Float64Array(n),
    end: new Float64Array(n), label: Int32Array.from(given.label), row: new Int32Array(n),
    bytes: given.bytes, delay: given.delay, unfinished: new Set(given.unfinished),
    faulted: new Set(given.faulted), rows: [], y: 0 };
  const ends = [];
  for (let i = 0, at = 0; i < n; ++i) {
    at += given.begin[i];
    track.begin[i] = at;
    track.end[i] = at + given.length[i];
    let depth = 0;
    while (depth < ends.length && ends[depth] > at) ++depth;
    ends[depth] = track.end[i];
    track.row[i] = depth;
    if (depth === track.rows.length) track.rows.push(makeRow());
    track.rows[depth].slices.push(i);
  }
  for (const row of track.rows) {
    row.track = track;
    row.slices = Int32Array.from(row.slices);
    row.begin = Float64Array.from(row.slices, (i) => track.begin[i]);
    row.end = Float64Array.from(row.slices, (i) => track.end[i]);
  }
  return track;
}
const tracks = data.tracks.map(makeTrack);
const rows = tracks.flatMap((track) => track.rows);

let first = Infinity, last = -Infinity;
for (const track of tracks) {
  for (let i = 0; i < track.n; ++i) {
    if (track.begin[i] < first) first = track.begin[i];
    if (track.end[i] > last) last = track.end[i];
  }
}
if (first > last) { first = 0; last = 1000; }
if (last - first < 100) last = first + 100;

// Headings, tracks and rows from top to bottom.
const headings = [];
let height = 0;
for (const track of tracks) {
  const name = track.device < 0 ? "host" : `cuda:${track.device}`;
  if (headings.length === 0 || headings[headings.length - 1].name !== name) {
    headings.push({ name, y: height });
    height += kHeading;
  }
  track.y = height;
  track.rows.forEach((row, depth) => { row.y = height + depth * kRow; });
  height += Math.max(1, track.rows.length) * kRow + kGap;
}

// Arrows by the pair of rows that they join: of those of one pair that fall together one is drawn.
const arrows = [];
const pairs = new Map();
for (let i = 0; i < data.arrows.length; i += 4) {
  const [fromTrack, from, toTrack, to] = data.arrows.slice(i, i + 4);
  const a = tracks[fromTrack], b = tracks[toTrack];
  const rowA = a.rows[a.row[from]], rowB = b.rows[b.row[to]];
  const key = `${fromTrack} ${a.row[from]} ${toTrack} ${b.row[to]}`;
  if (!pairs.has(key)) pairs.set(key, pairs.size);
  const wait = labels[b.label[to]].kind === kWait;
  arrows.push({ t0: a.end[from], t1: wait ? b.end[to] : b.begin[to], rowA, rowB,
    pair: pairs.get(key), from: [a, from], to: [b, to] });
}
arrows.sort((a, b) => a.t0 - b.t0);
const lastOfPair = new Float64Array(pairs.size);

// ---- Texts

function time(ns) {
  const size = Math.abs(ns);
  if (size < 1e3) return `${Math.round(ns * 10) / 10} ns`;
  if (size < 1e6) return `${+(ns / 1e3).toFixed(3)} \u00b5s`;
  if (size < 1e9) return `${+(ns / 1e6).toFixed(4)} ms`;
  return `${+(ns / 1e9).toFixed(5)} s`;
}
function size(bytes) {
  const units = ["bytes", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0, value = bytes;
  while (value >= 1024 && unit < 4) { value /= 1024; ++unit; }
  return unit === 0 ? `${bytes} bytes` : `${+value.toFixed(2)} ${units[unit]} (${bytes} bytes)`;
}
function describe([track, i]) {
  const label = labels[track.label[i]];
  const length = track.end[i] - track.begin[i];
  const sized = track.bytes && track.bytes[i] > 0;
  const lines = [label.name || "(no name)",
    `${data.kinds[label.kind]}, ${track.device < 0 ? "host" : "cuda:" + track.device}, ${track.name}`];
  if (label.kind !== kMark) lines.push(`took ${time(length)}`);
  lines.push(`began at ${time(track.begin[i])}`);
  if (sized) lines.push(size(track.bytes[i]));
  if (sized && length > 0) lines.push(`${+(track.bytes[i] / length).toFixed(3)} GB/s`);
  if (track.delay) lines.push(`enqueued ${time(track.delay[i])} before`);
  if (track.unfinished.has(i)) lines.push("had not ended");
  if (track.faulted.has(i)) lines.push("faulted");
  return lines;
}

// ---- The view: from which time to which, and how far down

const view = { t0: first, t1: last, top: 0 };
let width = 1, tall = 1, hovered = null, chosen = null, matches = [], match = -1, searching = false;
let drawing = false, drawn = 0;

function draw() {
  if (drawing) return;
  drawing = true;
  requestAnimationFrame(() => { drawing = false; paint(); });
}
function moveTo(t0, t1) {
  const whole = last - first, margin = whole * 0.5;
  let span = Math.min(Math.max(t1 - t0, 20), whole + 2 * margin);
  const middle = (t0 + t1) / 2;
  t0 = Math.min(Math.max(middle - span / 2, first - margin), last + margin - span);
  view.t0 = t0;
  view.t1 = t0 + span;
  draw();
}
function scrollTo(top) {
  view.top = Math.max(0, Math.min(top, height - (tall - kAxis) + 10));
  draw();
}
const everything = () => { const edge = (last - first) * 0.01; moveTo(first - edge, last + edge); };
const timeAt = (x) => view.t0 + (x - kNames) / (width - kNames) * (view.t1 - view.t0);
function zoomAt(x, factor) {
  const at = timeAt(Math.max(x, kNames));
  moveTo(at - (at - view.t0) * factor, at + (view.t1 - at) * factor);
}

/// The first of ascending numbers, from `low` on, that is greater than `value`.
function above(numbers, value, low) {
  let high = low, step = 1;
  while (high < numbers.length && numbers[high] <= value) { low = high + 1; high += step; step *= 2; }
  if (high > numbers.length) high = numbers.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (numbers[middle] <= value) low = middle + 1; else high = middle;
  }
  return low;
}

/// Slices of a row from left to right; those that are narrower than a pixel are one, of the color
/// of its first. `only`, if given, are the places in the row that count.
function paintRow(row, y, scale, color, text) {
  const { begin, end, slices, track } = row;
  let runX = 0, runEnd = -1, runColor = "";
  const flush = () => {
    if (runEnd < 0) return;
    context.fillStyle = runColor;
    context.fillRect(runX, y + 1, runEnd - runX, kRow - 2);
    ++drawn;
    runEnd = -1;
  };
  const right = view.t1;
  for (let i = above(end, view.t0, 0); i < slices.length && begin[i] < right;) {
    const x = kNames + Math.max(0, (begin[i] - view.t0) * scale);
    const x1 = kNames + (Math.min(end[i], right) - view.t0) * scale;
    const label = labels[track.label[slices[i]]];
    if (x1 - x >= 1.5) {
      flush();
      context.fillStyle = color(label);
      context.fillRect(x, y + 1, Math.max(x1 - x - 0.5, 1), kRow - 2);
      ++drawn;
      if (text && x1 - x > 26) texts.push([label.name, x + 3, y + 13, x1 - x - 6, label.kind]);
      ++i;
      continue;
    }
    const pixel = Math.floor(x);
    const own = text && label.kind === 0 ? kColors[0] : color(label);
    if (runEnd >= 0 && (pixel > runEnd || own !== runColor)) flush();
    if (runEnd < 0) { runX = pixel; runColor = own; }
    runEnd = Math.max(pixel + 1, runEnd);
    i = above(end, view.t0 + (pixel + 1 - kNames) / scale, i + 1);
    if (i > 0 && begin[i - 1] >= view.t0 + (pixel + 1 - kNames) / scale) --i;
  }
  flush();
}
const texts = [];

function paintAxis(scale) {
  context.fillStyle = "#f5f7f9";
  context.fillRect(0, 0, width, kAxis);
  const rough = 110 / scale, power = 10 ** Math.floor(Math.log10(rough));
  const step = power * (rough / power <= 2 ? 2 : rough / power <= 5 ? 5 : 10);
  context.fillStyle = "#5b6675";
  context.strokeStyle = "#e3e7ec";
  context.beginPath();
  for (let t = Math.ceil(view.t0 / step) * step; t < view.t1; t += step) {
    const x = Math.round(kNames + (t - view.t0) * scale) + 0.5;
    context.moveTo(x, kAxis - 5);
    context.lineTo(x, tall);
    context.fillText(time(Math.round(t * 1e3) / 1e3), x + 3, 15);
  }
  context.stroke();
}

function paintArrows(scale, offset) {
  const kMost = 1500, kApart = 6;
  lastOfPair.fill(-Infinity);
  let painted = 0;
  context.beginPath();
  const heads = [];
  for (const arrow of arrows) {
    if (arrow.t0 > view.t1) break;
    if (Math.max(arrow.t0, arrow.t1) < view.t0) continue;
    const x0 = kNames + (arrow.t0 - view.t0) * scale, x1 = kNames + (arrow.t1 - view.t0) * scale;
    if (x0 - lastOfPair[arrow.pair] < kApart) continue;
    lastOfPair[arrow.pair] = x0;
    const y0 = arrow.rowA.y + offset + kRow / 2, y1 = arrow.rowB.y + offset + kRow / 2;
    if ((y0 < kAxis && y1 < kAxis) || (y0 > tall && y1 > tall)) continue;
    context.moveTo(Math.max(x0, -4000), y0);
    context.lineTo(Math.min(x1, width + 4000), y1);
    heads.push(x1, y1, Math.atan2(y1 - y0, x1 - x0));
    if (++painted === kMost) break;
  }
  context.strokeStyle = `rgba(20, 30, 45, ${painted > 300 ? 0.18 : painted > 100 ? 0.35 : 0.55})`;
  context.stroke();
  if (painted > 300) return;
  context.beginPath();
  for (let i = 0; i < heads.length; i += 3) {
    const [x, y, angle] = [heads[i], heads[i + 1], heads[i + 2]];
    context.moveTo(x, y);
    context.lineTo(x - 7 * Math.cos(angle - 0.4), y - 7 * Math.sin(angle - 0.4));
    context.lineTo(x - 7 * Math.cos(angle + 0.4), y - 7 * Math.sin(angle + 0.4));
  }
  context.fillStyle = "rgba(20, 30, 45, 0.75)";
  context.fill();
}

function paint() {
  const ratio = window.devicePixelRatio || 1;
  const box = canvas.getBoundingClientRect();
  if (canvas.width !== Math.round(box.width * ratio) || canvas.height !== Math.round(box.height * ratio)) {
    canvas.width = Math.round(box.width * ratio);
    canvas.height = Math.round(box.height * ratio);
  }
  width = box.width;
  tall = box.height;
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.font = "12px system-ui, sans-serif";
  context.fillStyle = "#fff";
  context.fillRect(0, 0, width, tall);
  const scale = (width - kNames) / (view.t1 - view.t0);
  const offset = kAxis - view.top;
  drawn = 0;
  texts.length = 0;
  paintAxis(scale);
  context.save();
  context.beginPath();
  context.rect(kNames, kAxis, width - kNames, tall - kAxis);
  context.clip();
  const visible = (y, h) => y + h + offset > kAxis && y + offset < tall;
  context.globalAlpha = searching ? 0.3 : 1;
  for (const row of rows)
    if (visible(row.y, kRow)) paintRow(row, row.y + offset, scale, (label) => label.color, true);
  context.globalAlpha = 1;
  for (const row of rows)
    if (row.waits && visible(row.y, kRow)) paintRow(row.waits, row.y + offset, scale, (label) => label.color, false);
  for (const row of rows)
    if (row.hits && visible(row.y, kRow)) paintRow(row.hits, row.y + offset, scale, () => "#f0b429", false);
  let ink = "";
  for (const [name, x, y, room, kind] of texts) {
    const wanted = kind === kWait ? "#fff" : "#101828";
    if (wanted !== ink) context.fillStyle = ink = wanted;
    const most = Math.floor(room / 6.5);
    context.fillText(name.length <= most ? name : name.slice(0, Math.max(1, most - 1)) + "\u2026", x, y);
  }
  paintArrows(scale, offset);
  for (const [slice, color] of [[hovered, "#101828"], [chosen, "#d97706"], [matches[match], "#b54708"]]) {
    if (!slice) continue;
    const [track, i] = slice;
    const x = kNames + (track.begin[i] - view.t0) * scale;
    const x1 = kNames + (track.end[i] - view.t0) * scale;
    context.strokeStyle = color;
    context.lineWidth = 2;
    context.strokeRect(x - 1, track.y + track.row[i] * kRow + offset, Math.max(x1 - x + 1, 3), kRow);
    context.lineWidth = 1;
  }
  context.restore();
  context.save();
  context.beginPath();
  context.rect(0, kAxis, width, tall - kAxis);
  context.clip();
  context.fillStyle = "#f5f7f9";
  context.fillRect(0, kAxis, kNames - 4, tall - kAxis);
  for (const heading of headings) {
    if (!visible(heading.y, kHeading)) continue;
    context.fillStyle = "#e3e7ec";
    context.fillRect(0, heading.y + offset, width, kHeading - 4);
    context.fillStyle = "#1c2430";
    context.fillText(heading.name, 8, heading.y + offset + 12);
  }
  context.fillStyle = "#344054";
  for (const track of tracks)
    if (visible(track.y, kRow)) context.fillText(track.name, 16, track.y + offset + 13, kNames - 24);
  context.restore();
}

// ---- Searching

function placed(row, test) {
  const places = [];
  for (let k = 0; k < row.slices.length; ++k) if (test(labels[row.track.label[row.slices[k]]])) places.push(k);
  return places.length === 0 ? null : { track: row.track, slices: Int32Array.from(places, (k) => row.slices[k]),
    begin: Float64Array.from(places, (k) => row.begin[k]), end: Float64Array.from(places, (k) => row.end[k]) };
}
// Waits are seen however narrow they are.
for (const row of rows) row.waits = row.track.device < 0 ? placed(row, (label) => label.kind === kWait) : null;

function search(text) {
  const wanted = text.toLowerCase();
  searching = wanted !== "";
  for (const label of labels) label.hit = searching && label.name.toLowerCase().includes(wanted);
  matches = [];
  match = -1;
  for (const row of rows) {
    row.hits = searching ? placed(row, (label) => label.hit) : null;
    if (row.hits) for (const i of row.hits.slices) matches.push([row.track, i]);
  }
  matches.sort((a, b) => a[0].begin[a[1]] - b[0].begin[b[1]]);
  showFound();
  draw();
}
function showFound() {
  byId("found").textContent = !searching ? "" : matches.length === 0 ? "none"
    : match < 0 ? `${matches.length} found` : `${match + 1} of ${matches.length}`;
}
function showSlice(slice) {
  const [track, i] = slice, length = track.end[i] - track.begin[i];
  const span = Math.min(view.t1 - view.t0, Math.max(length * 12, 400));
  const middle = (track.begin[i] + track.end[i]) / 2;
  moveTo(middle - span / 2, middle + span / 2);
  const y = track.y + track.row[i] * kRow;
  if (y < view.top || y + kRow > view.top + tall - kAxis) scrollTo(y - (tall - kAxis) / 2);
}
function jump(step) {
  if (matches.length === 0) return;
  // The first time: to the first one from the left edge on.
  if (match < 0) {
    const from = matches.findIndex(([track, i]) => track.begin[i] >= view.t0);
    match = step > 0 ? Math.max(from, 0) : (Math.max(from, 0) + matches.length - 1) % matches.length;
  } else {
    match = (match + step + matches.length) % matches.length;
  }
  choose(matches[match]);
  showSlice(matches[match]);
  showFound();
}

// ---- What the user does

function sliceAt(x, y) {
  if (x < kNames || y < kAxis) return null;
  const down = y - kAxis + view.top;
  const row = rows.find((each) => down >= each.y && down < each.y + kRow);
  if (!row) return null;
  const near = 2 * (view.t1 - view.t0) / (width - kNames);
  const k = above(row.end, timeAt(x) - near, 0);
  return k < row.slices.length && row.begin[k] <= timeAt(x) + near ? [row.track, row.slices[k]] : null;
}
function choose(slice) {
  chosen = slice;
  if (slice) byId("chosen").textContent = describe(slice).join(" \u00b7 ");
  draw();
}
function point(event) {
  const box = canvas.getBoundingClientRect();
  return [event.clientX - box.left, event.clientY - box.top];
}
canvas.addEventListener("wheel", (event) => {
  event.preventDefault();
  const unit = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? tall : 1;
  if (event.shiftKey) return scrollTo(view.top + (event.deltaY || event.deltaX) * unit);
  if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
    const by = event.deltaX * unit / (width - kNames) * (view.t1 - view.t0);
    return moveTo(view.t0 + by, view.t1 + by);
  }
  zoomAt(point(event)[0], Math.exp(Math.max(-1, Math.min(1, event.deltaY * unit * 0.002))));
}, { passive: false });
let held = null, moved = false;
canvas.addEventListener("mousedown", (event) => {
  if (event.button !== 0) return;
  held = { at: point(event), t0: view.t0, t1: view.t1, top: view.top };
  moved = false;
});
window.addEventListener("mousemove", (event) => {
  const [x, y] = point(event);
  if (held) {
    if (Math.abs(x - held.at[0]) + Math.abs(y - held.at[1]) > 3) moved = true;
    const by = (held.at[0] - x) / (width - kNames) * (held.t1 - held.t0);
    moveTo(held.t0 + by, held.t1 + by);
    scrollTo(held.top + held.at[1] - y);
    tip.style.display = "none";
    return;
  }
  const slice = event.target === canvas ? sliceAt(x, y) : null;
  if (slice === null) {
    tip.style.display = "none";
  } else {
    tip.textContent = describe(slice).join("\n");
    tip.style.display = "block";
    tip.style.left = `${Math.max(0, Math.min(x + 12, width - tip.offsetWidth - 8))}px`;
    tip.style.top = `${Math.max(0, Math.min(y + 14, tall - tip.offsetHeight - 8))}px`;
  }
  if ((slice && slice[1]) !== (hovered && hovered[1]) || (slice && slice[0]) !== (hovered && hovered[0])) {
    hovered = slice;
    draw();
  }
});
window.addEventListener("mouseup", (event) => {
  if (held && !moved) choose(sliceAt(...point(event)));
  held = null;
});
canvas.addEventListener("dblclick", (event) => {
  const slice = sliceAt(...point(event));
  if (slice) showSlice(slice);
});
const box = byId("search");
box.addEventListener("input", () => search(box.value));
box.addEventListener("keydown", (event) => {
  if (event.key === "Enter") jump(event.shiftKey ? -1 : 1);
  if (event.key === "Escape") { box.value = ""; search(""); canvas.focus(); }
});
byId("next").addEventListener("click", () => jump(1));
byId("previous").addEventListener("click", () => jump(-1));
byId("all").addEventListener("click", everything);
window.addEventListener("keydown", (event) => {
  if (event.target === box || event.ctrlKey || event.metaKey || event.altKey) return;
  const by = (view.t1 - view.t0) * 0.1;
  if (event.key === "/") { event.preventDefault(); box.focus(); }
  if (event.key === "0") everything();
  if (event.key === "ArrowLeft") moveTo(view.t0 - by, view.t1 - by);
  if (event.key === "ArrowRight") moveTo(view.t0 + by, view.t1 + by);
  if (event.key === "ArrowUp" || event.key === "+") zoomAt(width / 2 + kNames / 2, 0.8);
  if (event.key === "ArrowDown" || event.key === "-") zoomAt(width / 2 + kNames / 2, 1.25);
});
window.addEventListener("resize", draw);

// ---- What was left out is said

const counts = data.counts;
byId("counts").textContent = `${counts.slices.toLocaleString("en")} slices, ${counts.arrows.toLocaleString("en")} arrows`;
const addNote = (text, title) => {
  const note = document.createElement("span");
  note.className = "bad";
  note.textContent = `; ${text}`;
  note.title = title;
  byId("counts").append(note);
};
for (const [count, what] of [[counts.over, "beyond the limit"], [counts.waiting, "not begun"],
  [counts.dropped, "dropped or not timed"]])
  if (count !== 0) addNote(`${count.toLocaleString("en")} ${what}`, "");
if (data.by_events !== "") addNote("times by events", data.by_events);
everything();

// For scripts: what is shown.
window.timeline = {
  get slices() { return tracks.reduce((sum, track) => sum + track.n, 0); },
  get arrows() { return arrows.length; },
  get tracks() { return tracks.map((track) => [track.device, track.name, track.n]); },
  get view() { return { ...view }; },
  get drawn() { return drawn; },
  get found() { return { matches: matches.length, at: match }; },
  get chosen() { return chosen === null ? null : describe(chosen); },
};
})();
