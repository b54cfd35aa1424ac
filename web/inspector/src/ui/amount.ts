// Numbers as people read them.
const whole = new Intl.NumberFormat("en");

export function count(n: number): string {
  return whole.format(n);
}

/** "1 event", "12 events". */
export function counted(n: number, one: string, many = `${one}s`): string {
  return `${whole.format(n)} ${n === 1 ? one : many}`;
}

/** Money in dollars; a price that nobody knows is said to be unknown. */
export function money(dollars: number | null | undefined): string {
  if (dollars === null || dollars === undefined) return "price unknown";
  if (dollars === 0) return "$0";
  return `$${dollars < 0.01 ? dollars.toPrecision(2) : dollars.toFixed(dollars < 1 ? 4 : 2)}`;
}

export function bytes(n: number): string {
  if (n < 1000) return counted(n, "byte");
  const units = ["KB", "MB", "GB"];
  let i = -1;
  for (; n >= 1000 && i < units.length - 1; i++) n /= 1000;
  return `${n < 10 ? n.toFixed(1) : Math.round(n)} ${units[i]}`;
}

/** A difference of times: 40 ms, 1.2 s, 3 min, 4 h, 2 d. */
export function span(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  if (ms < 3_600_000) return `${Math.round(ms / 60_000)} min`;
  if (ms < 86_400_000) return `${Math.round(ms / 3_600_000)} h`;
  return `${Math.round(ms / 86_400_000)} d`;
}

/** The time of day of an event, and its date if that is not today's. */
export function clock(time: string | undefined, now = new Date()): string {
  if (time === undefined || time === "") return "";
  const t = new Date(time);
  const day = t.toDateString() === now.toDateString() ? "" : `${t.toLocaleDateString("en-GB", { day: "numeric", month: "short" })} `;
  return day + t.toLocaleTimeString("en-GB");
}
