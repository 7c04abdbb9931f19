(function () {
  "use strict";

  // The appendix is printed open; everything else as it stands on the page.
  var opened = [];
  window.addEventListener("beforeprint", function () {
    document.querySelectorAll(".appendix details").forEach(function (d) {
      if (!d.open) { d.open = true; opened.push(d); }
    });
  });
  window.addEventListener("afterprint", function () {
    opened.forEach(function (d) { d.open = false; });
    opened = [];
  });

  // A link into folded details opens them.
  function reveal() {
    var target = location.hash && document.getElementById(location.hash.slice(1));
    for (var node = target; node; node = node.parentElement) {
      if (node.tagName === "DETAILS") { node.open = true; }
    }
    if (target) { target.scrollIntoView(); }
  }
  window.addEventListener("hashchange", reveal);
  reveal();

  function mark(part, at, name, on) {
    part.querySelectorAll('[data-at="' + at + '"]').forEach(function (node) {
      node.classList.toggle(name, on);
    });
  }

  // The slider stops at the upper limits of the options, and at "any".
  document.querySelectorAll("[data-part]").forEach(function (part) {
    var box = part.querySelector("[data-slider]"), charts = part.querySelectorAll(".frontier-chart");
    if (!box || !charts.length) { return; }
    var slider = box.querySelector("input"), shown = box.querySelector("[data-shown]");
    var rows = Array.prototype.slice.call(part.querySelectorAll("tr[data-at]"));
    var limits = rows.map(function (row) { return row.dataset.limit; })
      .filter(function (limit) { return limit !== ""; }).map(Number)
      .sort(function (a, b) { return a - b; })
      .filter(function (limit, at, all) { return !at || limit !== all[at - 1]; });
    slider.max = limits.length;
    slider.value = limits.length;

    function placeOf(value, data) {
      var low = Number(data.low), high = Number(data.high);
      var share = data.log === "1"
        ? Math.log(Math.max(value, low) / low) / Math.log(high / low) : (value - low) / (high - low);
      return Number(data.start) + Math.min(Math.max(share, 0), 1) * (Number(data.end) - Number(data.start));
    }

    function update() {
      var at = Number(slider.value), all = at >= limits.length, limit = all ? Infinity : limits[at];
      var left = 0;
      rows.forEach(function (row) {
        var within = all || (row.dataset.limit !== "" && Number(row.dataset.limit) <= limit);
        if (within) { left += 1; }
        mark(part, row.dataset.at, "beyond", !within);
      });
      charts.forEach(function (chart) {
        var group = chart.querySelector(".limit");
        var area = group.querySelector("rect"), line = group.querySelector("line");
        var x = all ? Number(chart.dataset.end) : placeOf(limit, chart.dataset);
        group.setAttribute("visibility", all ? "hidden" : "visible");
        area.setAttribute("x", x);
        area.setAttribute("width", Number(chart.dataset.end) - x);
        line.setAttribute("x1", x);
        line.setAttribute("x2", x);
      });
      var said = all ? "any" : (100 * limit).toPrecision(2) * 1 + " %";
      shown.textContent = said + ": " + left + " / " + rows.length;
      slider.setAttribute("aria-valuetext", said);
    }
    slider.addEventListener("input", update);
    box.hidden = false;
    update();
  });

  // Copies of every table and chart, made here: nothing is sent anywhere.
  function text(cell) { return cell.textContent.replace(/\s+/g, " ").trim(); }
  function grid(table) {
    return Array.prototype.map.call(table.rows, function (row) {
      return Array.prototype.map.call(row.cells, text);
    });
  }
  function csv(table) {
    return grid(table).map(function (row) {
      return row.map(function (cell) {
        return /[",\n]/.test(cell) ? '"' + cell.replace(/"/g, '""') + '"' : cell;
      }).join(",");
    }).join("\n");
  }
  function json(table) {
    var rows = grid(table), heads = rows.shift();
    return JSON.stringify(rows.map(function (row) {
      var entry = {};
      heads.forEach(function (head, at) { entry[head] = row[at]; });
      return entry;
    }), null, 1);
  }
  function svg(chart) {
    var copy = chart.cloneNode(true), from = [chart].concat(Array.from(chart.querySelectorAll("*")));
    [copy].concat(Array.from(copy.querySelectorAll("*"))).forEach(function (node, at) {
      var style = getComputedStyle(from[at]);
      ["fill", "stroke", "fill-opacity", "stroke-opacity", "stroke-width", "stroke-dasharray",
        "font-size", "font-weight", "font-family"].forEach(function (name) {
        node.style.setProperty(name, style.getPropertyValue(name));
      });
      ["tabindex", "role", "class"].forEach(function (name) { node.removeAttribute(name); });
    });
    copy.setAttribute("xmlns", "http" + "://www.w3.org/2000/svg");
    return new XMLSerializer().serializeToString(copy);
  }
  function copied(words, button) {
    function done() {
      var before = button.textContent;
      button.textContent = "✓";
      setTimeout(function () { button.textContent = before; }, 1200);
    }
    function byHand() {
      var area = document.createElement("textarea");
      area.value = words;
      document.body.appendChild(area);
      area.select();
      document.execCommand("copy");
      area.remove();
      done();
    }
    if (navigator.clipboard) { navigator.clipboard.writeText(words).then(done, byHand); } else { byHand(); }
  }
  function buttons(node, before, kinds) {
    var bar = document.createElement("span");
    bar.className = "copy";
    Object.keys(kinds).forEach(function (kind) {
      var button = document.createElement("button");
      button.type = "button";
      button.textContent = kind;
      button.setAttribute("aria-label", "copy as " + kind);
      button.addEventListener("click", function () { copied(kinds[kind](node), button); });
      bar.appendChild(button);
    });
    before.appendChild(bar);
  }
  document.querySelectorAll("table").forEach(function (table) {
    if (table.caption && table.rows.length > 1 && !table.closest(".signatures")) {
      buttons(table, table.caption.firstElementChild, { CSV: csv, JSON: json });
    }
  });
  document.querySelectorAll("figure").forEach(function (figure) {
    function shown() {
      return Array.from(figure.querySelectorAll("svg")).find(function (one) {
        return one.getClientRects().length;
      }) || figure.querySelector("svg");
    }
    buttons(figure, figure.querySelector("figcaption"), { SVG: function () { return svg(shown()); } });
  });
}());
