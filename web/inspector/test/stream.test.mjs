import assert from "node:assert/strict";
import { createServer } from "node:http";
import { test } from "node:test";
import { load } from "./bundle.mjs";

const { follow } = await load("net/stream.ts");
const frames = Array.from({ length: 6 }, (_, i) => `id: ${i + 1}\ndata: {"seq":${i + 1},"words":"é😀 ${i}"}\n\n`);
const whole = Buffer.from(`retry: 1000\n\nevent: state\ndata: {"seq":0}\n\n${frames.join("")}`);

/** Runs with timers that do not wait, and returns how long they would have. */
async function hurried(what) {
  const real = globalThis.setTimeout;
  const waits = [];
  globalThis.setTimeout = (then, ms, ...more) => {
    const pause = ms >= 200 && ms <= 15_000;
    if (pause) waits.push(ms);
    return real(then, pause ? 0 : ms, ...more);
  };
  try {
    await what(waits);
  } finally {
    globalThis.setTimeout = real;
  }
  return waits;
}

/** A server of one log that breaks each first connection off after n bytes. */
async function served(answer, use) {
  const server = createServer(answer);
  await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
  const { port } = server.address();
  const real = globalThis.fetch;
  globalThis.fetch = (url, init) => real(`http://127.0.0.1:${port}${url}`, init);
  try {
    await use();
  } finally {
    globalThis.fetch = real;
    server.closeAllConnections();
    server.close();
  }
}

test("a stream that is cut at any byte goes on behind the last whole event, and nothing comes twice", async () => {
  let cut = 0;
  let first = true;
  const asked = [];
  await served(
    (req, res) => {
      const last = Number(req.headers["last-event-id"] ?? 0);
      asked.push(last);
      res.writeHead(200, { "Content-Type": "text/event-stream" });
      if (first) {
        first = false;
        res.write(whole.subarray(0, cut), () => res.destroy());
      } else res.end(Buffer.from(`event: state\ndata: {"seq":6}\n\n${frames.slice(last).join("")}`));
    },
    () =>
      hurried(async () => {
        for (cut = 1; cut <= whole.length; cut++) {
          first = true;
          asked.length = 0;
          const got = [];
          await new Promise((done) => {
            const stop = follow({
              path: "/x",
              frames: (some) => {
                for (const f of some) if (f.type === "") got.push(f.data.seq);
                if (got.at(-1) === 6) {
                  stop();
                  done();
                }
              },
              connected: () => {},
              failed: (error) => assert.fail(error),
            });
          });
          assert.deepEqual(got, [1, 2, 3, 4, 5, 6], `cut at ${cut}`);
          assert.ok(asked.length <= 2 && (asked[1] ?? 0) <= 6);
        }
      }),
  );
});

test("pauses grow from half a second to 15 s with jitter, and begin anew after a connection", async () => {
  let n = 0;
  const waits = await hurried((waits) =>
    served(
      (_, res) => {
        n++;
        if (n === 12) {
          res.writeHead(200, { "Content-Type": "text/event-stream" });
          res.end();
        } else res.destroy();
      },
      () =>
        new Promise((done) => {
          const stop = follow({
            path: "/x",
            frames: () => {},
            connected: () => {
              if (waits.length < 13) return;
              stop();
              done();
            },
            failed: (error) => assert.fail(error),
          });
        }),
    ),
  );
  waits.slice(0, 11).forEach((ms, i) => {
    const most = Math.min(15_000, 500 * 2 ** i);
    assert.ok(ms >= most / 2 && ms <= most, `pause ${i}: ${ms}`);
  });
  assert.ok(waits[11] <= 500, `after a connection: ${waits[11]}`);
});

test("a stream that says nothing for longer than the server is ever silent is begun anew", async () => {
  const real = globalThis.setTimeout;
  let asked = 0;
  let last;
  globalThis.setTimeout = (then, ms, ...more) => real(then, ms > 15_000 ? 50 : 0, ...more);
  try {
    await served(
      (req, res) => {
        asked++;
        last = req.headers["last-event-id"];
        res.writeHead(200, { "Content-Type": "text/event-stream" });
        res.write(asked === 1 ? frames[0] : frames[1]);
      },
      () =>
        new Promise((done) => {
          const stop = follow({
            path: "/x",
            frames: ([f]) => {
              if (f.data.seq !== 2) return;
              stop();
              done();
            },
            connected: () => {},
            failed: (error) => assert.fail(error),
          });
        }),
    );
  } finally {
    globalThis.setTimeout = real;
  }
  assert.deepEqual([asked, last], [2, "1"]);
});

for (const [status, again] of [[401, false], [403, false], [404, false], [412, false], [429, true], [500, true], [503, true]]) {
  test(`an answer of ${status} ${again ? "is tried again" : "ends the stream"}`, async () => {
    let n = 0;
    let error;
    await hurried(() =>
      served(
        (_, res) => {
          n++;
          if (n === 1) res.writeHead(status, { "Content-Type": "application/problem+json" }).end(`{"detail":"No."}`);
          else res.writeHead(200, { "Content-Type": "text/event-stream" }).end(frames[0]);
        },
        () =>
          new Promise((done) => {
            const stop = follow({
              path: "/x",
              frames: () => {
                stop();
                done();
              },
              connected: () => {},
              failed: (e) => {
                error = e;
                done();
              },
            });
          }),
      ),
    );
    assert.equal(error?.status, again ? undefined : status);
    assert.equal(n, again ? 2 : 1);
  });
}
