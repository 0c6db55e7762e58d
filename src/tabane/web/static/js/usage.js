// Usage: the chart by day.

import { bars } from "./chart.js";
import { lang, number } from "./text.js";

const DAY = 86400;

export function mount(root) {
  const place = root.querySelector("#usage-chart");
  if (!place) return null;
  const known = new Map(JSON.parse(place.dataset.days).map(([day, ...figures]) => [day, figures]));
  const words = JSON.parse(place.dataset.words);
  const seconds = (day) => Date.parse(`${day}T00:00:00Z`) / 1000;
  const days = [];
  for (let day = place.dataset.first; day <= place.dataset.last;) {
    days.push(day);
    day = new Date((seconds(day) + DAY) * 1000).toISOString().slice(0, 10);
  }
  const figures = days.map((day) => known.get(day) || [0, 0, 0]);
  const short = new Intl.DateTimeFormat(lang(), { month: "numeric", day: "numeric", timeZone: "UTC" });
  const long = new Intl.DateTimeFormat(lang(), { dateStyle: "medium", timeZone: "UTC" });
  const chart = bars(place, [days.map(seconds), figures.map(([calls]) => calls), figures.map(([, failed]) => failed)], {
    height: 200,
    least: 4,
    whole: true,
    x: (time) => short.format(time * 1000),
    y: number,
    series: ["ok", "bad"],
    say: (at) => `${long.format(seconds(days[at]) * 1000)} · ${figures[at].map((value, which) => `${number(value)} ${words[which]}`).slice(0, 2).join(", ")}`,
  });
  return () => chart.end();
}
