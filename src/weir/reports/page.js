// Reads a chart's values under the pointer. Everything it shows is in the page already.
const read = document.getElementById("read");
const when = (s) => (s >= 86400 ? `day ${(s / 86400).toFixed(1)}` : `${(s / 3600).toFixed(1)} h`);
for (const svg of document.querySelectorAll("svg[data-read]")) {
  const data = JSON.parse(svg.dataset.read);
  const cursor = document.createElementNS("http://www.w3.org/2000/svg", "line");
  cursor.setAttribute("class", "cursor");
  cursor.setAttribute("y1", data.top);
  cursor.setAttribute("y2", data.top + data.height);
  const leave = () => { read.style.display = "none"; cursor.remove(); };
  svg.addEventListener("pointerleave", leave);
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * svg.viewBox.baseVal.width;
    const points = data.curves[0] ? data.curves[0][2].length : 0;
    const at = Math.floor(((x - data.left) / data.width) * points);
    if (at < 0 || at >= points) return leave();
    cursor.setAttribute("x1", x);
    cursor.setAttribute("x2", x);
    svg.append(cursor);
    const title = document.createElement("b");
    title.textContent = when(data.start + (at + 0.5) * data.step);
    const rows = data.curves.map(([name, colour, values]) => {
      const row = document.createElement("div"), label = document.createElement("span"), dot = document.createElement("i");
      dot.style.background = colour;
      label.append(dot, name);
      row.append(label, `${values[at].toLocaleString("en", { maximumFractionDigits: 1 })} ${data.unit}`);
      return row;
    });
    read.replaceChildren(title, ...(rows.length > 2 ? rows.reverse() : rows));
    read.style.display = "block";
    const right = event.clientX + 16 + read.offsetWidth > innerWidth;
    read.style.left = `${right ? event.clientX - 16 - read.offsetWidth : event.clientX + 16}px`;
    read.style.top = `${Math.max(8, Math.min(event.clientY + 12, innerHeight - read.offsetHeight - 8))}px`;
  });
}
