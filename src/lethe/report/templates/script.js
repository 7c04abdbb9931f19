(function () {
  "use strict";
  // Closed details would be missing on paper.
  window.addEventListener("beforeprint", function () {
    document.querySelectorAll("details").forEach(function (d) { d.open = true; });
  });

  document.querySelectorAll("[data-part]").forEach(function (part) {
    var box = part.querySelector("[data-slider]");
    var charts = part.querySelectorAll(".frontier-chart");
    if (!box || !charts.length) { return; }
    var slider = box.querySelector("input");
    var shown = box.querySelector("[data-shown]");
    var answer = box.querySelector("[data-answer]");
    var rows = Array.prototype.slice.call(part.querySelectorAll("tr[data-at]"));
    var scale = charts[0].dataset;

    function riskAt(share) {
      var low = Number(scale.low), high = Number(scale.high);
      return scale.log === "1" ? low * Math.pow(high / low, share) : low + (high - low) * share;
    }

    function mark(at, name, on) {
      part.querySelectorAll('[data-at="' + at + '"]').forEach(function (node) {
        node.classList.toggle(name, on);
      });
    }

    function moveLine(share, all) {
      charts.forEach(function (chart) {
        var start = Number(chart.dataset.start), end = Number(chart.dataset.end);
        var x = start + share * (end - start);
        var group = chart.querySelector(".limit");
        var area = group.querySelector("rect"), line = group.querySelector("line");
        group.setAttribute("visibility", all ? "hidden" : "visible");
        area.setAttribute("x", x);
        area.setAttribute("width", end - x);
        line.setAttribute("x1", x);
        line.setAttribute("x2", x);
      });
    }

    function update() {
      var share = Number(slider.value) / Number(slider.max);
      var all = share >= 1;
      var limit = riskAt(share);
      var best = null, left = 0, lost = 0;
      rows.forEach(function (row) {
        var upper = row.dataset.limit, within = upper !== "" && Number(upper) <= limit;
        if (upper === "") { lost += 1; }
        if (within) {
          left += 1;
          if (row.dataset.merit !== "" &&
              (!best || Number(row.dataset.merit) > Number(best.dataset.merit) ||
               (Number(row.dataset.merit) === Number(best.dataset.merit) &&
                Number(upper) < Number(best.dataset.limit)))) { best = row; }
        }
        mark(row.dataset.at, "beyond", !all && !within);
        mark(row.dataset.at, "best", false);
      });
      moveLine(share, all);
      var said = limit.toPrecision(2);
      shown.textContent = all ? "any" : said;
      slider.setAttribute("aria-valuetext", all ? "any risk" : "at most " + said);
      if (all) {
        answer.textContent = "All " + rows.length + " candidates are shown. Move to the left to set a limit.";
        return;
      }
      if (best) { mark(best.dataset.at, "best", true); }
      answer.textContent = best
        ? left + " of " + rows.length + " candidates remain. Highest utility among them: " +
          best.dataset.name + " (" + Number(best.dataset.merit).toFixed(4) + ")."
        : "No candidate remains: none is shown to have so little risk.";
      if (lost) { answer.textContent += " " + lost + " without a measured upper limit cannot be accepted."; }
    }

    // A box for each candidate, which takes it off the chart; without scripts all are drawn.
    rows.forEach(function (row) {
      var toggle = document.createElement("input");
      toggle.type = "checkbox";
      toggle.className = "toggle";
      toggle.checked = true;
      toggle.setAttribute("aria-label", "show " + row.dataset.name + " on the chart");
      toggle.addEventListener("change", function () { mark(row.dataset.at, "off", !toggle.checked); });
      var name = row.querySelector("th");
      name.insertBefore(toggle, name.firstChild);
    });

    slider.addEventListener("input", update);
    box.hidden = false;
    update();
  });
}());
