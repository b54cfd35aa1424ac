const form = /^(\d{4})-(\d\d)-(\d\d)T(\d\d?):(\d\d):(\d\d)(?:[.,](\d+))?(?:Z|([+-])(\d\d):(\d\d))$/;

/**
 * Returns a time of RFC 3339 in UTC, with nanoseconds as far as there are some,
 * and "" for anything else. A Date would not do: it holds milliseconds.
 */
export function utc(time: string): string {
  const m = time === "" ? null : form.exec(time);
  if (m === null) return "";
  const [year, month, day, hour, minute, second] = m.slice(1, 7).map(Number) as [number, number, number, number, number, number];
  const offsetHours = Number(m[9] ?? 0);
  const offsetMinutes = Number(m[10] ?? 0);
  if (hour > 23 || minute > 59 || second > 59 || offsetHours > 24 || offsetMinutes > 60) return "";
  const date = new Date(0);
  date.setUTCFullYear(year, month - 1, day); // Date.UTC takes 99 for 1999
  if (date.getUTCMonth() !== month - 1 || date.getUTCDate() !== day) return "";
  const offset = (offsetHours * 60 + offsetMinutes) * (m[8] === "-" ? -1 : 1);
  date.setUTCHours(hour, minute - offset, second);
  const y = date.getUTCFullYear();
  if (y < 0 || y > 9999) return "";
  const fraction = (m[7] ?? "").slice(0, 9).replace(/0+$/, "");
  const out = date.toISOString().slice(0, 19) + (fraction === "" ? "" : "." + fraction) + "Z";
  return out === "0001-01-01T00:00:00Z" ? "" : out; // what Go writes for no time
}
