(function () {
  "use strict";

  const $ = (id) => document.getElementById(id);
  const words = JSON.parse($("words").textContent);
  const say = (key, values) => words[key].replace(/\{(\w+)\}/g, (_, name) => values[name]);
  const count = (number) => number.toLocaleString("en-US");
  const PAGE = 25, CELL = 6;  // rows of the list; pixels around the pointer that are looked at
  const canvas = $("dots"), tip = $("tip");

  // data: the most exposed record first; view: positions in it, in the order of the picture.
  let data, names, view = new Uint32Array(0), chosen = -1, first = 0, scale = null;

  async function unpack() {
    const bytes = Uint8Array.from(atob($("packed").textContent.trim()), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return JSON.parse(await new Response(stream).text());
  }

  const low = (at) => data.t[at] - data.half[at];
  const high = (at) => data.t[at] + data.half[at];
  const isExposed = (at) => low(at) > 0;
  const fixed = (hundredths) => (hundredths / 100).toFixed(2).replace("-", "−");
  const valueOf = (group, at) => group.names[group.codes[at]];

  // Phi(t): how often an attacker is right who compares one model with the record and one without.
  // Abramowitz and Stegun 7.1.26, error below 1.5e-7.
  function normal(x) {
    const z = Math.abs(x) / Math.SQRT2, k = 1 / (1 + 0.3275911 * z);
    const series = k * (0.254829592 + k * (-0.284496736 + k * (1.421413741 +
      k * (-1.453152027 + k * 1.061405429))));
    const tail = series * Math.exp(-z * z) / 2;
    return x < 0 ? tail : 1 - tail;
  }

  // The ranks that a record can have, from the limits of all records at once.
  let lows, highs;
  function below(sorted, value, orEqual) {
    let start = 0, end = sorted.length;
    while (start < end) {
      const middle = (start + end) >> 1;
      if (sorted[middle] < value || (orEqual && sorted[middle] === value)) { start = middle + 1; } else { end = middle; }
    }
    return start;
  }
  function ranks(at) {
    return [1 + data.t.length - below(lows, high(at), true), data.t.length - below(highs, low(at), false)];
  }

  function judged(at) { return isExposed(at) ? words.exposed : words.chance; }
  function interval(at) { return say("interval", { low: fixed(low(at)), high: fixed(high(at)) }); }
  function reason(at) { return valueOf(data.why, at); }
  function title(at) { return say("record", { id: data.ids[at] }); }
  function summary(at) {
    const named = data.groups.map((group) => group.name + " " + valueOf(group, at));
    const lead = [title(at), ...named].join(", ");
    return lead + "\n" + judged(at) + ": t " + fixed(data.t[at]) + " " + interval(at) + "\n" + reason(at);
  }

  // What is shown: the filters, then the order, then how many.
  function update() {
    const limits = data.groups.map((group, at) => [group, $("group-" + at).value])
      .filter(([, value]) => value !== "").map(([group, value]) => [group.codes, Number(value)]);
    const only = $("exposed").checked;
    const listed = [];
    for (let at = 0; at < data.t.length; at += 1) {
      if ((!only || isExposed(at)) && limits.every(([codes, code]) => codes[at] === code)) { listed.push(at); }
    }
    const sort = $("sort").value;
    if (sort === "low") { listed.sort((a, b) => low(b) - low(a)); }
    if (sort === "id") {
      listed.sort((a, b) => (names[a] < names[b] ? -1 : 1));
    }
    if (sort.startsWith("group-")) {
      const codes = data.groups[Number(sort.slice(6))].codes;
      listed.sort((a, b) => codes[a] - codes[b] || a - b);
    }
    view = Uint32Array.from(listed.slice(0, Number($("most").value) || listed.length));
    const exposed = listed.reduce((sum, at) => sum + isExposed(at), 0);
    const unknown = data.unknown ? " " + say("unknown", { n: count(data.unknown) }) : "";
    $("count").textContent = (listed.length
      ? say("count", { n: count(listed.length), all: count(data.t.length), exposed: count(exposed), drawn: count(view.length) })
      : words.none) + unknown;
    canvas.setAttribute("aria-valuemin", "1");
    canvas.setAttribute("aria-valuemax", String(Math.max(view.length, 1)));
    first = 0;
    paint();
    chosen = view.includes(chosen) ? chosen : view.length ? view[0] : -1;
    show();
    list();
    draw();
  }

  function colour(name) {
    return getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
  }

  // All records, drawn once for each view; `draw` puts the chosen one on top.
  const all = document.createElement("canvas");
  function paint() {
    const ratio = window.devicePixelRatio || 1, box = canvas.getBoundingClientRect();
    all.width = canvas.width = Math.round(box.width * ratio);
    all.height = canvas.height = Math.round(box.height * ratio);
    const pen = all.getContext("2d"), left = 44, right = box.width - 8, top = 24, bottom = box.height - 26;
    pen.scale(ratio, ratio);
    pen.font = "12px system-ui, sans-serif";
    scale = null;
    if (!view.length) { return; }
    let least = 0, most = 0;
    for (const at of view) { least = Math.min(least, data.t[at]); most = Math.max(most, data.t[at]); }
    const room = 0.05 * (most - least) + 20;
    least -= room;
    most += room;
    const width = (right - left) / view.length;
    const x = (place) => left + (place + 0.5) * width;
    const y = (value) => bottom - (Math.min(Math.max(value, least), most) - least) / (most - least) * (bottom - top);
    scale = { x, y, left, width };

    const tall = Math.max(1, Math.ceil((most - least) / 600));
    pen.fillStyle = colour("muted");
    pen.strokeStyle = colour("grid");
    for (let tick = Math.ceil(least / 100 / tall) * tall; 100 * tick <= most; tick += tall) {
      pen.fillText(String(tick).replace("-", "−"), 8, y(100 * tick) + 4);
      pen.beginPath();
      pen.moveTo(left, y(100 * tick));
      pen.lineTo(right, y(100 * tick));
      pen.stroke();
    }
    pen.fillText(words.axis, 8, 12);
    pen.fillText(say("across", { n: count(view.length), order: $("sort").selectedOptions[0].textContent }), left, box.height - 6);

    // Of many records a pixel holds several: one line from the lowest limit to the highest.
    pen.globalAlpha = 0.35;
    for (const exposed of [false, true]) {
      pen.fillStyle = colour(exposed ? "after" : "grey");
      let column = -1, from = 0, to = 0;
      const flush = () => { if (column >= 0) { pen.fillRect(column, from, 1, Math.max(to - from, 1)); } };
      for (let place = 0; place < view.length; place += 1) {
        const at = view[place];
        if (isExposed(at) !== exposed) { continue; }
        const here = Math.round(x(place)), upper = y(high(at)), lower = y(low(at));
        if (here !== column) { flush(); column = here; from = upper; to = lower; }
        from = Math.min(from, upper);
        to = Math.max(to, lower);
      }
      flush();
    }
    pen.globalAlpha = 1;
    const size = Math.min(Math.max(width, 1.5), 7);
    for (const exposed of [false, true]) {
      pen.fillStyle = colour(exposed ? "after" : "before");
      for (let place = 0; place < view.length; place += 1) {
        const at = view[place];
        if (isExposed(at) !== exposed) { continue; }
        if (size < 3) { pen.fillRect(x(place) - size / 2, y(data.t[at]) - size / 2, size, size); continue; }
        // The shape says it too, for eyes that do not tell the colours apart.
        pen.beginPath();
        if (exposed) { pen.rect(x(place) - size / 2, y(data.t[at]) - size / 2, size, size); }
        else { pen.arc(x(place), y(data.t[at]), size / 2, 0, 7); }
        pen.fill();
      }
    }
    pen.strokeStyle = pen.fillStyle = colour("ink");
    pen.setLineDash([5, 4]);
    pen.beginPath();
    pen.moveTo(left, y(0));
    pen.lineTo(right, y(0));
    pen.stroke();
    pen.setLineDash([]);
    pen.strokeStyle = colour("paper");
    pen.lineWidth = 3;
    pen.strokeText(words.guess, left + 4, y(0) + 14);
    pen.fillText(words.guess, left + 4, y(0) + 14);
  }

  function draw() {
    const ratio = window.devicePixelRatio || 1, pen = canvas.getContext("2d");
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.clearRect(0, 0, canvas.width, canvas.height);
    if (all.width && all.height) { pen.drawImage(all, 0, 0); }
    const place = view.indexOf(chosen);
    if (!scale || place < 0) { return; }
    pen.scale(ratio, ratio);
    pen.strokeStyle = colour("ink");
    pen.lineWidth = 2;
    pen.beginPath();
    pen.moveTo(scale.x(place), scale.y(high(chosen)));
    pen.lineTo(scale.x(place), scale.y(low(chosen)));
    pen.stroke();
    pen.beginPath();
    pen.arc(scale.x(place), scale.y(data.t[chosen]), 6, 0, 7);
    pen.stroke();
  }

  function repaint() {
    paint();
    draw();
  }

  function element(name, text, parent) {
    const node = document.createElement(name);
    if (text !== null) { node.textContent = text; }
    if (parent) { parent.appendChild(node); }
    return node;
  }

  function facts(rows, parent) {
    const list = element("dl", null, parent);
    list.className = "facts";
    list.tabIndex = 0;
    rows.forEach(([name, value]) => {
      const row = element("div", null, list);
      element("dt", name, row);
      element("dd", value === null ? "–" : String(value), row);
    });
  }

  function drawPicture(values, parent) {
    const [tall, wide, colours] = data.picture, picture = element("canvas", null, parent);
    picture.width = wide;
    picture.height = tall;
    picture.setAttribute("role", "img");
    picture.setAttribute("aria-label", say("picture", { id: data.ids[chosen] }));
    const pen = picture.getContext("2d"), pixels = pen.createImageData(wide, tall);
    const least = Math.min(...values), most = Math.max(...values);
    for (let at = 0; at < tall * wide; at += 1) {
      for (let part = 0; part < 3; part += 1) {
        const value = values[at * colours + (colours > 1 ? part : 0)];
        pixels.data[4 * at + part] = 255 * (most > least ? (value - least) / (most - least) : 0);
      }
      pixels.data[4 * at + 3] = 255;
    }
    pen.putImageData(pixels, 0, 0);
  }

  function show() {
    const body = $("record-body"), named = $("record-title");
    body.textContent = "";
    if (chosen < 0) {
      named.textContent = words.none;
      canvas.setAttribute("aria-valuenow", "1");
      canvas.setAttribute("aria-valuetext", words.none);
      return;
    }
    named.textContent = title(chosen);
    canvas.setAttribute("aria-valuenow", String(view.indexOf(chosen) + 1));
    canvas.setAttribute("aria-valuetext", summary(chosen).replace(/\n/g, "; "));
    const judgement = element("p", judged(chosen), body), [from, to] = ranks(chosen);
    judgement.className = "outcome" + (isExposed(chosen) ? " fail" : "");
    const right = Math.min(99, Math.max(1, Math.round(100 * normal(data.t[chosen] / 100))));
    facts([
      [words.exposure, "t " + fixed(data.t[chosen]) + " " + interval(chosen)],
      [words.right, say("share", { n: right })],
      [words.rank, say("ranks", { from: count(from), to: count(to), all: count(data.t.length) })],
      [words.why, reason(chosen)],
      ...data.groups.map((group) => [group.name, valueOf(group, chosen)])
    ], body);
    if (!data.rows.length || chosen >= data.kept) {
      element("p", data.rows.length ? say("rows", { n: count(data.kept) }) : words.nothing, body).className = "note";
      return;
    }
    const row = data.rows.map(([name, values]) => [name, values[chosen]]);
    element("h3", words.kept, body);
    if (data.picture.length) { drawPicture(row.map(([, value]) => value), body); return; }
    if (row.length === 1) { element("blockquote", row[0][1], body); return; }
    facts(row, body);
  }

  function list() {
    const rows = $("rows"), pages = Math.max(1, Math.ceil(view.length / PAGE));
    rows.textContent = "";
    $("page").textContent = say("page", { at: count(first / PAGE + 1), of: count(pages) });
    for (const at of view.subarray(first, first + PAGE)) {
      const row = element("tr", null, rows), named = element("th", null, row);
      named.scope = "row";
      row.className = at === chosen ? "chosen" : "";
      const button = element("button", title(at), named);
      button.type = "button";
      button.addEventListener("click", () => choose(at, true));
      const number = element("td", fixed(data.t[at]) + " " + interval(at), row);
      number.className = "num";
      element("td", judged(at), row);
      element("td", reason(at), row);
    }
    $("back").disabled = first === 0;
    $("on").disabled = first + PAGE >= view.length;
  }

  function choose(at, stay) {
    chosen = at;
    const place = view.indexOf(at);
    if (place >= 0 && !stay) { first = PAGE * Math.floor(place / PAGE); }
    show();
    if (stay) {
      document.querySelectorAll("#rows tr").forEach((row, near) => { row.className = view[first + near] === at ? "chosen" : ""; });
    } else { list(); }
    draw();
  }

  // The record nearest to the pointer; -1 where none is near.
  function under(event) {
    if (!scale) { return -1; }
    const box = canvas.getBoundingClientRect(), px = event.clientX - box.left, py = event.clientY - box.top;
    const reach = Math.max(CELL, scale.width / 2);
    const from = Math.max(0, Math.ceil((px - reach - scale.left) / scale.width - 0.5));
    const to = Math.min(view.length - 1, Math.floor((px + reach - scale.left) / scale.width - 0.5));
    let nearest = -1, least = Infinity;
    for (let place = from; place <= to; place += 1) {
      const far = Math.hypot(scale.x(place) - px, scale.y(data.t[view[place]]) - py);
      if (far < least) { least = far; nearest = view[place]; }
    }
    return nearest;
  }

  function hover(event) {
    const at = under(event);
    tip.hidden = at < 0;
    if (at < 0) { return; }
    tip.textContent = summary(at);
    const box = canvas.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
    tip.style.left = Math.max(0, Math.min(x + 14, box.width - tip.offsetWidth)) + "px";
    tip.style.top = (y > box.height / 2 ? y - tip.offsetHeight - 10 : y + 14) + "px";
  }

  function key(event) {
    const place = view.indexOf(chosen), leap = Math.max(10, Math.round(view.length / 100));
    const steps = {
      ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1,
      PageDown: leap, PageUp: -leap, Home: -view.length, End: view.length
    };
    if (!(event.key in steps) || !view.length) { return; }
    event.preventDefault();
    choose(view[Math.min(Math.max(place + steps[event.key], 0), view.length - 1)]);
  }

  function find(event) {
    event.preventDefault();
    const sought = $("search").value.trim();
    if (!sought) { return; }
    const at = data.ids.indexOf(sought);
    if (at < 0) { $("count").textContent = say("lost", { id: sought }); return; }
    if (!view.includes(at)) {  // the filters hide it
      data.groups.forEach((_, group) => { $("group-" + group).value = ""; });
      $("exposed").checked = false;
      $("most").value = "";
      update();
    }
    choose(at);
  }

  function options(select, listed) {
    listed.forEach(([value, text]) => { element("option", text, select).value = value; });
  }

  function start(unpacked) {
    data = unpacked;
    names = data.ids.every((id) => /^\d{1,15}$/.test(id)) ? data.ids.map(Number) : data.ids;
    lows = Int32Array.from(data.t, (_, at) => low(at)).sort();
    highs = Int32Array.from(data.t, (_, at) => high(at)).sort();
    data.groups.forEach((group, at) => {
      const box = element("span", null, $("groups")), label = element("label", group.name, box);
      const select = element("select", null, box);
      label.htmlFor = select.id = "group-" + at;
      options(select, [["", words.all], ...group.names.map((name, code) => [String(code), name])]);
    });
    options($("sort"), [["t", words.exposure], ["low", words.low], ["id", words.id],
      ...data.groups.map((group, at) => ["group-" + at, group.name])]);
    options($("most"), [["", words.all], ["1000", count(1000)], ["100", "100"], ["20", "20"]]);
    document.querySelectorAll("[hidden]").forEach((node) => { if (node !== tip) { node.hidden = false; } });
    $("controls").addEventListener("change", (event) => { if (event.target.id !== "search") { update(); } });
    $("controls").addEventListener("submit", find);
    $("back").addEventListener("click", () => { first = Math.max(0, first - PAGE); list(); });
    $("on").addEventListener("click", () => { first += PAGE; list(); });
    canvas.addEventListener("pointermove", hover);
    canvas.addEventListener("pointerleave", () => { tip.hidden = true; });
    canvas.addEventListener("click", (event) => { const at = under(event); if (at >= 0) { choose(at); } });
    canvas.addEventListener("keydown", key);
    new ResizeObserver(repaint).observe(canvas);
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
    update();
    document.body.dataset.ready = "1";
  }

  unpack().then(start, () => { $("count").textContent = words.broken; });
}());
