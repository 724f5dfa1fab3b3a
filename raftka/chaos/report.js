const charts = [...document.querySelectorAll("svg.chart")], at = document.getElementById("at");
const faults = JSON.parse(document.getElementById("faults").textContent);
const [width, left, right] = JSON.parse(document.getElementById("shape").textContent);
function show(event) {
  const box = event.currentTarget.getBoundingClientRect(), x = (event.clientX - box.left) / box.width * width;
  const seconds = +event.currentTarget.dataset.seconds, t = (x - left) / (width - left - right) * seconds;
  if (t < 0 || t > seconds) return hide();
  for (const chart of charts) for (const end of ["x1", "x2"]) chart.querySelector(".cursor").setAttribute(end, x);
  at.replaceChildren(Object.assign(document.createElement("b"), { textContent: t.toFixed(1) + " s" }));
  for (const [from, to, kind, what] of faults) if (from <= t && t <= to)
    at.append(Object.assign(document.createElement("div"), { textContent: kind + ": " + what }));
  at.style.display = "block";
}
function hide() {
  for (const chart of charts) for (const end of ["x1", "x2"]) chart.querySelector(".cursor").setAttribute(end, -9);
  at.style.display = "none";
}
for (const chart of charts) { chart.addEventListener("mousemove", show); chart.addEventListener("mouseleave", hide); }
