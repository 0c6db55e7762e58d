// Usage: the chart by day.

import { bars } from "./chart.js";

const DAY = 86400;

export function mount(root) {
  const place = root.querySelector("#usage-chart");
  if (!place) return null;
  const known = new Map(JSON.parse(place.dataset.days).map(([day, ...figures]) => [day, figures]));
  const seconds = (day) => Date.parse(`${day}T00:00:00`) / 1000;
  const times = [], calls = [], errors = [];
  for (let day = place.dataset.first; day <= place.dataset.last;) {
    const [called = 0, failed = 0] = known.get(day) || [];
    times.push(seconds(day));
    calls.push(called || null);
    errors.push(failed || null);
    day = new Date((Date.parse(`${day}T00:00:00Z`) / 1000 + DAY) * 1000).toISOString().slice(0, 10);
  }
  const chart = bars(place, [times, calls, errors], {
    height: 200,
    xLabel: place.dataset.day,
    // half a day at both ends, so that the first and the last bar are whole
    scales: { x: { time: true, range: (plot, min, max) => [min - DAY / 2, max + DAY / 2] } },
    series: [{ label: place.dataset.calls, color: "accent" }, { label: place.dataset.errors, color: "bad" }],
  });
  return () => chart.then((made) => made.end());
}
