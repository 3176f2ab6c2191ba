"use strict";
(() => {
const D = JSON.parse(document.getElementById("data").textContent);
const $ = id => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";
const number = n => Math.round(n).toLocaleString("en");
const percent = x => (x * 100 >= 10 || x === 0 ? Math.round(x * 100) : (x * 100).toFixed(1)) + "%";
const short = uuid => uuid.slice(0, 8);
const plural = (n, one, many) => `${number(n)} ${n === 1 ? one : many || one + "s"}`;

/* Every text of the conversation goes through here, as a text node: nothing of it is ever read as HTML. */
function el(name, attributes, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key === "on") for (const [event, f] of Object.entries(value)) node.addEventListener(event, f);
    else if (value === true) node.setAttribute(key, "");
    else if (value !== false && value != null) node.setAttribute(key, value);
  }
  node.append(...children.filter(c => c != null));
  return node;
}
function draw(name, attributes) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  return node;
}
const day = ms => new Date(ms).toISOString().slice(0, 19).replace("T", " ");

/* ------------------------------------------------------------------------------------------------- light and dark */
const dark = matchMedia("(prefers-color-scheme: dark)");
function theme(isDark) {
  document.documentElement.dataset.theme = isDark ? "dark" : "light";
  $("theme").textContent = isDark ? "Light" : "Dark";
}
theme(dark.matches);
dark.addEventListener("change", e => theme(e.matches));
$("theme").addEventListener("click", () => theme(document.documentElement.dataset.theme !== "dark"));

/* ---------------------------------------------------------------------------------------------------------- figures */
const saved = D.without.tokens ? 1 - D.sent.tokens / D.without.tokens : 0;
const edits = D.passes.flatMap(p => p.edits);
const used = edits.reduce((sum, e) => [sum[0] + e.model[0], sum[1] + e.model[1], sum[2] + e.model[2]], [0, 0, 0]);
const behind = D.states.filter(s => s >= 0).length, removed = D.states.filter(s => s === -2).length;
$("title").textContent = `Session ${D.session}`;
$("lead").textContent = (D.fallbacks ? `The summarising model failed: ${plural(D.fallbacks, "note")} without a part of its own. ` : "") + (D.passes.length
  ? `${plural(D.originals, "message")} and ${plural(D.full, "token")} were said. The model now sees ${number(D.size)} tokens in `
    + `${plural(D.view.length, "message")}. ${behind ? `The ${number(behind)} originals that are out of its sight are kept byte for byte and can be reloaded.` : "All of it is in its sight."}`
  : `${plural(D.originals, "message")} and ${plural(D.full, "token")}, all of them in the model's sight: nothing had to be compressed.`);
const tiles = [
  ["Context now", number(D.size), D.window ? `tokens, ${percent(D.size / D.window)} of the window` : "tokens"],
  ["Without compression", number(D.full), "tokens" + (D.full > D.size && D.size ? `, ${(D.full / D.size).toFixed(1)} times as many` : "")],
  ["Compressions", number(D.passes.length), plural(edits.length, "edit")],
  ["Input tokens sent", saved > 0.0005 ? `−${percent(saved)}` : number(D.sent.tokens), `over ${plural(D.sent.calls, "call")}`],
];
$("tiles").append(...tiles.map(([name, big, by]) =>
  el("div", {}, el("dt", {}, name), el("dd", {class: "big"}, big), el("dd", {class: "by"}, by))));

const row = (name, value) => el("tr", {}, el("th", {scope: "row"}, name), el("td", {class: "n"}, value));
const invalidated = D.passes.reduce((n, p) => n + p.before - p.kept, 0);
const billed = s => s.tokens - s.cached + 0.1 * s.cached;
$("cost").append(el("tbody", {},
  row("Input tokens sent, all calls", number(D.sent.tokens)),
  ...(D.passes.length ? [row("Without compression", number(D.without.tokens))] : []),
  row("With prompt caching, in full-price tokens", number(billed(D.sent))),
  ...(D.passes.length ? [
    row("Without compression, cached as well", number(billed(D.without))),
    row("Cached tokens that compressions invalidated", number(invalidated)),
    row("Share of the cache that a compression keeps, on average", percent(D.passes.reduce((n, p) => n + (p.before ? p.kept / p.before : 0), 0) / D.passes.length))] : []),
  ...(used[0] || used[1] ? [
    row("Summarising model: tokens in", number(used[0])),
    row("Summarising model: tokens out", number(used[1])),
    row("Summarising model: seconds, calls added up", used[2].toFixed(1))] : []),
));
$("cost-note").textContent = "A call is each message of the assistant. Cached tokens are counted at a tenth: what a call sends "
  + "in the same place as the call before." + (used[0] || used[1] || !D.passes.length ? "" : " The notes cost nothing: they were written without a model.");

/* --------------------------------------------------------------------------------- what the agent does once more */
const {before, after} = D.repeats;
$("again").hidden = !after.calls;
const rates = (name, key) => el("tr", {}, el("th", {scope: "row"}, name), ...[before, after].map(c =>
  el("td", {class: "n"}, c.calls ? `${number(c[key])} of ${number(c.calls)}` : "no calls")));
$("repeats").append(
  el("thead", {}, el("tr", {}, el("td", {}), ...["before", "after"].map(when => el("th", {scope: "col", class: "n"}, when)))),
  el("tbody", {}, rates("The same tool with equal arguments", "repeated"), rates("Reads of what was read before", "reread"),
    ...(after.reloads || before.reloads ? [rates("Of these, by context_reload", "reloads")] : [])));

/* ------------------------------------------------------------------------------------------------------ what fills it */
function bars(table, rows) {
  const most = Math.max(1, ...rows.map(r => r[1])), all = rows.reduce((n, r) => n + r[1], 0) || 1;
  table.append(el("tbody", {}, ...rows.map(([name, n, colour]) => {
    const svg = draw("svg", {"aria-hidden": "true", preserveAspectRatio: "none", viewBox: "0 0 100 12"});
    svg.append(draw("rect", {width: Math.max(0.8, 100 * n / most), height: 12, rx: 1.5, class: "f-" + colour}));
    return el("tr", {}, el("th", {scope: "row"}, name), el("td", {class: "track"}, svg),
      el("td", {class: "n"}, number(n)), el("td", {class: "n"}, percent(n / all)));
  })));
}
bars($("kinds"), D.kinds.map((k, i) => [D.kind_names[i], D.parts[i], k]).filter(r => r[1] > 0).sort((a, b) => b[1] - a[1]));
if (D.tools.length) bars($("tools"), D.tools.slice(0, 12).map(([name, n]) => [name, n, "results"]));
else $("tools").replaceWith(el("p", {class: "note"}, "No call or result of a tool is in view."));

/* ------------------------------------------------------------------------------------------------------------- charts */
const LEFT = 62, TOP = 22, BOTTOM = 22;
let chosen = -1, chart = null;
function scale(top) {
  const step = Math.pow(10, Math.floor(Math.log10(Math.max(1, top))));
  const nice = [0.2, 0.5, 1, 2].map(f => f * step).find(s => top / s <= 5) || 5 * step;
  return Array.from({length: Math.floor(top / nice) + 1}, (_, i) => i * nice);
}
const compact = n => n >= 1e6 ? (n / 1e6).toFixed(n % 1e6 ? 1 : 0) + "M" : n >= 1e4 ? Math.round(n / 1e3) + "k" : number(n);
function frame(box, height, top) {
  const width = Math.max(240, box.clientWidth - 8);
  const most = Math.max(1, D.originals), x = n => LEFT + (width - LEFT - 8) * n / most, y = n => height - BOTTOM - (height - TOP - BOTTOM) * n / Math.max(1, top);
  const svg = draw("svg", {viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-hidden": "true"});
  for (const tick of scale(top)) {
    svg.append(draw("line", {x1: LEFT, x2: width - 8, y1: y(tick), y2: y(tick), class: "grid"}));
    const label = draw("text", {x: LEFT - 8, y: y(tick) + 4, "text-anchor": "end"});
    label.textContent = compact(tick);
    svg.append(label);
  }
  for (const [at, anchor, text] of [[0, "start", "message 0"], [most, "end", number(most)]]) {
    const label = draw("text", {x: x(at), y: height - 5, "text-anchor": anchor});
    label.textContent = text;
    svg.append(label);
  }
  return {svg, x, y, width, height, most};
}
/* A step for each call: what it was sent stands until the next call. */
function area(f, low, high) {
  const up = [], down = [], at = y => Math.max(TOP, f.y(y)).toFixed(1);
  D.calls.forEach((p, i) => {
    const from = f.x(p[0]).toFixed(1), to = f.x(i + 1 < D.calls.length ? D.calls[i + 1][0] : f.most).toFixed(1);
    up.push(`${from},${at(high(p))}`, `${to},${at(high(p))}`);
    down.push(`${from},${at(low(p))}`, `${to},${at(low(p))}`);
  });
  return up.length ? `M${up.join("L")}L${down.reverse().join("L")}Z` : "";
}
function plot() {
  const sent = Math.max(D.window || 0, ...D.calls.map(p => p[1])), without = Math.max(0, ...D.calls.map(p => p[2]));
  const top = Math.max(1, Math.min(sent * 1.4, Math.max(sent, without) * 1.02));
  const f = chart = frame($("chart"), 290, top);
  f.svg.append(draw("path", {d: area(f, p => p[1], p => p[2]), class: "f-full"}));
  if (without > top) {
    const label = draw("text", {x: f.width - 14, y: TOP + 14, "text-anchor": "end"});
    label.textContent = `without compression: up to ${compact(without)} \u2191`;
    f.svg.append(label);
  }
  D.kinds.forEach((kind, i) => {
    const low = p => p.slice(3, 3 + i).reduce((a, b) => a + b, 0);
    f.svg.append(draw("path", {d: area(f, low, p => low(p) + p[3 + i]), class: "f-" + kind}));
  });
  if (D.window) f.svg.append(draw("line", {x1: LEFT, x2: f.width - 8, y1: f.y(D.window), y2: f.y(D.window), class: "limit"}));
  f.cross = draw("line", {y1: TOP, y2: f.height - BOTTOM, x1: -9, x2: -9, class: "cross"});
  f.pick = draw("line", {y1: TOP - 8, y2: f.height - BOTTOM, x1: -9, x2: -9, class: "pick"});
  f.svg.append(f.cross, f.pick);
  f.dots = D.passes.map((p, i) => {
    const dot = draw("circle", {cx: f.x(p.at), cy: 11, r: 5, class: "dot"}), hit = draw("rect", {x: f.x(p.at) - 9, y: 0, width: 18, height: 24, class: "hit"});
    hit.addEventListener("click", () => choose(i, true));
    const title = draw("title", {});
    title.textContent = `Compression ${i + 1}: ${number(p.before)} to ${number(p.after)} tokens`;
    hit.append(title);
    f.svg.append(dot, hit);
    return dot;
  });
  f.svg.addEventListener("pointermove", e => {
    const box = f.svg.getBoundingClientRect(), at = (e.clientX - box.left) * f.width / box.width;
    let best = 0;
    for (let i = 0; i < D.calls.length; i++) if (Math.abs(f.x(D.calls[i][0]) - at) <= Math.abs(f.x(D.calls[best][0]) - at)) best = i;
    if (!D.calls.length) return;
    const p = D.calls[best];
    f.cross.setAttribute("x1", f.x(p[0]));
    f.cross.setAttribute("x2", f.x(p[0]));
    $("read").textContent = `call after message ${number(p[0])}: ${plural(p[1], "token")} sent, ${number(Math.max(0, p[2] - p[1]))} avoided`;
  });
  f.svg.addEventListener("pointerleave", () => { f.cross.setAttribute("x1", -9); f.cross.setAttribute("x2", -9); $("read").textContent = ""; });
  $("chart").replaceChildren(f.svg);
  $("whole").hidden = !D.passes.length;
  if (!D.passes.length) { mark(); return; }
  const g = frame($("both"), 150, Math.max(1, ...D.calls.map(p => Math.max(p[1], p[2]))));
  g.svg.append(draw("path", {d: area(g, () => 0, p => p[2]), class: "f-full"}), draw("path", {d: area(g, () => 0, p => p[1]), class: "f-sent"}));
  $("both").replaceChildren(g.svg);
  mark();
}
function mark() {
  chart.dots.forEach((dot, i) => dot.classList.toggle("on", i === chosen));
  const x = chosen < 0 ? -9 : chart.x(D.passes[chosen].at);
  chart.pick.setAttribute("x1", x);
  chart.pick.setAttribute("x2", x);
}
$("legend").append(...D.kinds.map((k, i) => el("li", {}, el("i", {class: "b-" + k}), D.kind_names[i])),
  ...(D.passes.length ? [el("li", {}, el("i", {class: "b-full"}), "not sent, thanks to compression"), el("li", {}, el("i", {class: "ring"}), "a compression: choose one")] : []),
  ...(D.window ? [el("li", {}, el("i", {class: "dash"}), `the window, ${number(D.window)} tokens`)] : []));
$("both-note").textContent = D.sent.calls
  ? `The largest context that a call sent had ${plural(D.sent.largest, "token")}` + (D.passes.length ? `; without compression it would have had ${number(D.without.largest)}.` : ".")
  : "No call of a model so far.";
let resizing = 0;
addEventListener("resize", () => { cancelAnimationFrame(resizing); resizing = requestAnimationFrame(plot); });
$("chart").addEventListener("keydown", e => {
  const n = D.passes.length;
  const to = {ArrowLeft: chosen <= 0 ? 0 : chosen - 1, ArrowRight: Math.min(n - 1, chosen + 1), Home: 0, End: n - 1}[e.key];
  if (n && to !== undefined) { choose(to, false); e.preventDefault(); }
  if (e.key === "Enter" && chosen >= 0) { $("passes").scrollIntoView(); $("detail").focus({preventScroll: true}); }
});

/* ----------------------------------------------------------------------------------------------------------- messages */
const spread = ranges => ranges.flatMap(([a, b]) => Array.from({length: b - a + 1}, (_, i) => a + i));
const quoted = text => /^[\w@%+=:,./-]+$/.test(text) ? text : "'" + text.replaceAll("'", "'\\''") + "'";
const command = (name, uuid) => `autocontext ${name} ${quoted(D.db)} ${uuid} --session ${quoted(D.session)}` + (D.user ? ` --user ${quoted(D.user)}` : "");
const roleOf = m => m.made || m.role;
function textOf(m) { return m.blocks.map(b => `${b[1]} ${b[2]}`).join("\n"); }
for (const m of D.messages) m.lower = textOf(m).toLowerCase();
function marked(text, words) {
  const found = words.filter(Boolean);
  if (!found.length) return [text];
  const parts = [], lower = text.toLowerCase();
  if (lower.length !== text.length) return [text];
  let at = 0;
  for (let guard = 0; guard < 400; guard++) {
    let next = -1, size = 0;
    for (const w of found) { const i = lower.indexOf(w, at); if (i >= 0 && (next < 0 || i < next)) { next = i; size = w.length; } }
    if (next < 0) break;
    parts.push(text.slice(at, next), el("mark", {}, text.slice(next, next + size)));
    at = next + size;
  }
  return [...parts, text.slice(at)];
}
function blocks(m, words) {
  return m.blocks.map(([type, name, text, whole]) => {
    const cap = {call: "call ", result: "result of ", error: "error from ", thinking: "thinking"}[type];
    return el("div", {class: "block"},
      cap != null ? el("p", {class: "cap"}, cap + (name || "")) : null,
      type === "media" ? el("p", {class: "cap"}, `[${name}]`) : el("pre", {dir: "auto", tabindex: text.length > 1500 ? "0" : null}, ...marked(text, words)),
      whole ? el("p", {class: "cut"}, `Cut for this page: ${number(text.length)} of ${number(whole)} characters. The database has all of it.`) : null);
  });
}
function card(i) {
  const m = D.messages[i];
  return el("article", {class: "msg"}, el("div", {class: "top"},
    el("span", {}, el("i", {class: "sw b-" + m.kind}), roleOf(m)),
    el("span", {}, i < D.originals ? `message ${number(i + 1)}` : "written by a compression"),
    el("span", {}, plural(m.tokens, "token"))), ...blocks(m, []));
}
function several(ranges, empty) {
  const all = spread(ranges), shown = 30;
  if (!all.length) return [el("p", {}, empty)];
  const rest = all.slice(shown), more = el("button", {type: "button", class: "act"}, `Show the other ${number(rest.length)} messages`);
  more.addEventListener("click", () => more.replaceWith(...rest.map(card)));
  return [...all.slice(0, shown).map(card), rest.length ? more : null].filter(Boolean);
}

/* -------------------------------------------------------------------------------------------------------- compressions */
function copyable(text) {
  const button = el("button", {type: "button", class: "act"}, "Copy");
  button.addEventListener("click", async () => {
    try { await navigator.clipboard.writeText(text); button.textContent = "Copied"; }
    catch { getSelection().selectAllChildren(button.previousSibling); button.textContent = "Selected"; }
  });
  return el("div", {class: "cmd"}, el("code", {tabindex: "0"}, text), button);
}
let made = 0;
function edit(e) {
  const id = `e${made++}`;
  const pane = el("div", {class: "pane", role: "tabpanel", id: id + "p", tabindex: "0"});
  const count = spread(e.removed).length;
  const views = [
    [`Before (${number(count)})`, () => several(e.removed, "Not kept any more.")],
    ["After", () => several(e.added, "Nothing stands in its place.")],
    ["Reload", () => e.reload.length ? [
      el("p", {}, `${plural(spread(e.reload).length, "original")}, byte for byte, under this UUID:`), copyable(e.uuid),
      el("p", {}, "The agent calls context_reload with it. In a terminal, the originals, the difference, and the way to put them back into the view:"),
      copyable(command("reload", e.uuid)), copyable(`autocontext inspect ${quoted(D.db)} ${quoted(D.session)}${D.user ? ` --user ${quoted(D.user)}` : ""} --diff ${e.uuid}`), copyable(command("undo", e.uuid)),
      ...several(e.reload, "")] : [el("p", {}, "Nothing any more: the memory was cleared or loaded anew, or the entry was forgotten.")]],
  ];
  const tabs = views.map(([name, fill], i) => {
    const tab = el("button", {type: "button", role: "tab", id: `${id}t${i}`, "aria-controls": id + "p"}, name);
    tab.addEventListener("click", () => {
      tabs.forEach(t => { t.setAttribute("aria-selected", t === tab); t.tabIndex = t === tab ? 0 : -1; });
      pane.setAttribute("aria-labelledby", tab.id);
      pane.replaceChildren(...fill());
      pane.scrollTop = 0;
    });
    tab.addEventListener("keydown", k => {
      const to = {ArrowLeft: i - 1, ArrowRight: i + 1, Home: 0, End: views.length - 1}[k.key];
      if (to === undefined) return;
      const next = tabs[(to + tabs.length) % tabs.length];
      next.focus();
      next.click();
      k.preventDefault();
    });
    return tab;
  });
  const box = el("div", {class: "edit"}, el("div", {class: "head"},
    el("span", {class: "name"}, e.label),
    el("span", {class: "hint"}, `${plural(e.count, "message")}, ${number(e.before)} → ${plural(e.after, "token")}` + (e.model[0] ? `; model ${number(e.model[0])} in, ${number(e.model[1])} out, ${e.model[2].toFixed(1)} s` : ""))),
    el("div", {class: "tabs", role: "tablist", "aria-label": e.label}, ...tabs), pane);
  tabs[1].click();
  return box;
}
function choose(i, open) {
  if (i < 0 || i >= D.passes.length) return;
  chosen = i;
  mark();
  [...$("pass-list").children].forEach((item, k) => {
    const button = item.firstChild;
    button.setAttribute("aria-current", k === i);
    if (k === i) $("pass-list").scrollTop = item.offsetTop - $("pass-list").offsetTop - 80;
  });
  const p = D.passes[i];
  const parts = [
    el("h3", {}, `Compression ${i + 1} of ${D.passes.length}`),
    el("p", {class: "hint"}, `after message ${number(p.at)}` + (p.time ? `, ${day(p.time)} UTC` : "")),
    el("p", {}, `${number(p.before)} → ${plural(p.after, "token")}, ${number(p.messages[0])} → ${plural(p.messages[1], "message")} in view. `
      + `Of the prompt cache ${p.kept ? `the first ${number(p.kept)} tokens stayed` : "no token stayed"}; ${number(p.before - p.kept)} had to be read anew.`),
    ...(p.receipt ? [el("p", {}, `${p.receipt}.`)] : []),
    ...p.edits.map(edit),
  ];
  $("detail").replaceChildren(...parts);
  $("said").textContent = `Compression ${i + 1} of ${D.passes.length}, after message ${number(p.at)}: ${number(p.before)} to ${plural(p.after, "token")}`;
  if (open) $("passes").scrollIntoView();
}
if (!D.passes.length) { $("split").hidden = $("h-passes-hint").hidden = true; $("no-passes").hidden = false; }
$("pass-list").append(...D.passes.map((p, i) => el("li", {}, el("button", {type: "button", on: {click: () => choose(i, false)}},
  el("b", {}, `${i + 1}. ${number(p.before)} → ${number(p.after)}`),
  el("small", {}, `after message ${number(p.at)}`),
  el("small", {}, [...new Set(p.edits.map(e => e.label))].join(", "))))));
function opener(i) {
  const p = D.passes.findIndex(p => p.edits.some(e => spread(e.added).includes(i)));
  return p < 0 ? null : el("button", {type: "button", class: "link", on: {click: () => { choose(p, true); $("detail").focus({preventScroll: true}); }}}, "its compression");
}

/* ----------------------------------------------------------------------------------------------------- search and list */
const PAGE = 50;
let page = 0;
for (const role of [...new Set(D.messages.map(m => m.role))].sort()) $("role").append(el("option", {value: role}, role));
const seen = new Set(D.view);
function state(i) {
  if (i >= D.originals) return el("span", {class: "tag in"}, "in view");
  const s = D.states[i];
  if (s === -1) return el("span", {class: "tag in"}, "in view");
  if (s === -2) return el("span", {class: "tag gone"}, "removed");
  return el("span", {class: "tag"}, `behind ${short(D.messages[s].uuid)}`);
}
function matches() {
  const words = $("search").value.toLowerCase().split(/\s+/).filter(Boolean), role = $("role").value, want = $("state").value;
  const pool = want === "view" ? D.view : Array.from({length: D.originals}, (_, i) => i);
  const fits = {all: () => true, view: () => true, kept: i => D.states[i] === -1, behind: i => D.states[i] >= 0, removed: i => D.states[i] === -2}[want];
  return [words, pool.filter(i => fits(i) && (!role || D.messages[i].role === role) && words.every(w => D.messages[i].lower.includes(w)))];
}
function excerpt(m, words) {
  const text = m.blocks.map(b => b[0] === "text" ? b[2] : b[0] === "media" ? `[${b[1]}]` : `${b[1] || b[0]}: ${b[2]}`).join(" ");
  const at = words.length ? Math.max(0, text.toLowerCase().indexOf(words[0]) - 30) : 0;
  return marked((at ? "… " : "") + text.slice(at, at + 220).replace(/\s+/g, " ").trim(), words);
}
function item(i, words) {
  const m = D.messages[i];
  const details = el("details", {}, el("summary", {},
    el("span", {class: "num"}, i < D.originals ? number(i + 1) : "note"),
    el("span", {class: "role"}, el("i", {class: "sw b-" + m.kind}), roleOf(m)),
    el("span", {class: "first", dir: "auto"}, ...excerpt(m, words)),
    el("span", {class: "meta"}, `${number(m.tokens)} `, state(i))));
  details.addEventListener("toggle", () => {
    if (!details.open || details.children.length > 1) return;
    const holder = i < D.originals ? D.states[i] : i, uuid = holder >= 0 ? D.messages[holder].uuid : "";
    details.append(el("div", {class: "body"},
      el("p", {class: "hint"}, plural(m.tokens, "token"), m.time ? `, ${m.time}` : "", ". ",
        holder >= 0 ? (i < D.originals ? "Out of view; this brings it back, with what it was condensed with: " : "Written by a compression; the originals: ") : "",
        holder >= 0 ? opener(holder) : null),
      uuid && holder >= 0 ? copyable(command("reload", uuid)) : null, ...blocks(m, words)));
  });
  return el("li", {}, details);
}
function list() {
  const [words, found] = matches(), pages = Math.max(1, Math.ceil(found.length / PAGE));
  page = Math.min(page, pages - 1);
  $("found").textContent = `${plural(found.length, "message")}` + (words.length ? " found" : "") + (words.length && D.cut ? `; ${plural(D.cut, "long text")} are cut in this page, autocontext search looks through all of it` : "");
  $("list").replaceChildren(...found.slice(page * PAGE, page * PAGE + PAGE).map(i => item(i, words)));
  $("page").textContent = `page ${page + 1} of ${pages}`;
  $("prev").disabled = page === 0;
  $("next").disabled = page === pages - 1;
}
const anew = () => { page = 0; list(); };
$("search").addEventListener("input", anew);
$("state").addEventListener("change", anew);
$("role").addEventListener("change", anew);
for (const [id, by] of [["prev", -1], ["next", 1]]) $(id).addEventListener("click", () => { page += by; list(); $("messages").scrollIntoView(); });
addEventListener("keydown", e => {
  const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName);
  if (e.key === "/" && !typing && !e.ctrlKey && !e.metaKey && !e.altKey) { $("search").focus(); $("search").scrollIntoView({block: "center"}); e.preventDefault(); }
  if (e.key === "Escape" && document.activeElement === $("search")) { $("search").value = ""; anew(); }
});
$("about").textContent = `Made ${day(D.made)} UTC by autocontext ${D.version} from ${D.db}${D.user ? `, user ${D.user}` : ""}. Tokens by ${D.counter}${D.exact ? "" : " (an estimate)"}. `
  + (D.cut ? `${plural(D.cut, "text")} longer than ${number(D.cap)} characters are cut in this page; the database has all of them. ` : "No text is cut. ") + "This page loads nothing from anywhere.";
plot();
list();
choose(D.passes.length - 1, false);
document.documentElement.dataset.ready = "yes";
})();
