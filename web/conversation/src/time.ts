const form = /^(\d{4})-(\d\d)-(\d\d)T(\d\d?):(\d\d):(\d\d)(?:[.,](\d+))?(?:Z|([+-])(\d\d):(\d\d))$/;

/**
 * Returns a time of RFC 3339 in UTC, with up to nine digits of a second, and "" for
 * anything else. It does not use Date for the fraction, because Date has only
 * milliseconds.
 */
export function utc(time: string): string {
  if (time === "" || isPlain(time)) return time;
  const m = form.exec(time);
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

// isPlain reports whether a time is one that utc returns unchanged. It recognizes the
// times that Arbor's server sends, except those on the last days of months.
function isPlain(time: string): boolean {
  const { length } = time;
  if (length < 20 || length > 30 || length === 21 || time.charCodeAt(length - 1) !== 0x5a) return false;
  const number = (at: number): number => {
    const tens = time.charCodeAt(at) - 0x30;
    const ones = time.charCodeAt(at + 1) - 0x30;
    return tens >= 0 && tens <= 9 && ones >= 0 && ones <= 9 ? 10 * tens + ones : NaN;
  };
  const [month, day] = [number(5), number(8)];
  if (!(number(0) >= 10 && number(2) >= 0 && month >= 1 && month <= 12 && day >= 1 && day <= 28)) return false;
  if (!(number(11) <= 23 && number(14) <= 59 && number(17) <= 59)) return false;
  for (let i = 20; i < length - 1; i++) {
    const digit = time.charCodeAt(i);
    if (digit < 0x30 || digit > 0x39) return false;
  }
  if (length > 20 && (time.charCodeAt(19) !== 0x2e || time.charCodeAt(length - 2) === 0x30)) return false;
  return time.charCodeAt(4) === 0x2d && time.charCodeAt(7) === 0x2d && time.charCodeAt(10) === 0x54 && time.charCodeAt(13) === 0x3a && time.charCodeAt(16) === 0x3a;
}
