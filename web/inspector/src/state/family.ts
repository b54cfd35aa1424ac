// Where a session and its relatives part. A fork shares the first events of its parent, and an edit
// those before the words that it replaces.
import type { Schemas } from "../net/api.js";

type Session = Schemas["Session"];

/** A place after which a session and its relatives differ. */
export interface Parting {
  /** The number of events that all of them share. */
  readonly at: number;
  /** One session for each way, from the oldest; this one's among them. */
  readonly ways: readonly Session[];
  /** Which of the ways this session goes. */
  readonly own: number;
}

/** The places at which relatives of a session part from it, in the order of the log. */
export function partings(family: readonly Session[], id: string): Parting[] {
  const byId = new Map(family.map((s) => [s.id, s]));
  const self = byId.get(id);
  if (self === undefined) return [];
  // The forks between a session and the first of its ancestors, each with how much it shares.
  const above = (s: Session): Map<string, number> => {
    const path = new Map([[s.id, Infinity]]);
    let least = Infinity;
    for (let now = s; now.parent?.id !== undefined && byId.has(now.parent.id) && !path.has(now.parent.id); now = byId.get(now.parent.id)!) {
      least = Math.min(least, now.parent.seq);
      path.set(now.parent.id, least);
    }
    return path;
  };
  const ancestors = new Map(family.map((s) => [s.id, above(s)]));
  const shared = (a: Session, b: Session): number => {
    const ofB = ancestors.get(b.id)!;
    for (const [common, least] of ancestors.get(a.id)!) {
      const other = ofB.get(common);
      if (other !== undefined) return Math.min(least, other);
    }
    return 0;
  };
  const places = new Map<number, Session[]>();
  for (const s of family) {
    if (s.id === id) continue;
    const at = shared(self, s);
    if (s.seq > at) places.set(at, [...(places.get(at) ?? []), s]);
  }
  const out: Parting[] = [];
  for (const [at, others] of [...places].sort(([a], [b]) => a - b)) {
    const ways: Session[] = [];
    // A session that ends at the place does not continue, but the reader is there.
    for (const s of family) {
      if (s.id !== id && !others.includes(s)) continue;
      if (!ways.some((w) => w.id !== id && s.id !== id && shared(w, s) > at)) ways.push(s);
    }
    ways.sort((a, b) => Date.parse(a.created) - Date.parse(b.created));
    out.push({ at, ways, own: ways.findIndex((s) => s.id === id) });
  }
  return out;
}
