"use strict";
const rows = [...document.querySelectorAll("tr.patch")];
const text = document.getElementById("text");
const never = document.getElementById("never");
const doubt = document.getElementById("doubt");
const statuses = [...document.querySelectorAll(".by-status")];

function filter() {
  const wanted = text.value.toLowerCase();
  const chosen = new Set(statuses.filter((box) => box.checked).map((box) => box.value));
  for (const row of rows) {
    row.hidden = !(
      chosen.has(row.dataset.status) &&
      (!never.checked || row.dataset.called === "false") &&
      (!doubt.checked || row.dataset.doubt === "1") &&
      row.textContent.toLowerCase().includes(wanted)
    );
  }
  document.getElementById("shown").textContent = `${rows.filter((row) => !row.hidden).length} of ${rows.length}`;
}

// A filter can be linked to: report.html#text=attention
text.value = new URLSearchParams(location.hash.slice(1)).get("text") ?? "";
for (const control of [text, never, doubt, ...statuses]) control.addEventListener("input", filter);
filter();
