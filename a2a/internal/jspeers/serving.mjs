// What both servers do besides A2A: they let the test look at what was heard, tell
// it where they are, and end with it.

import http from "node:http";
import { seen, waits, wake } from "./words.mjs";

// control adds what the test asks for.
export function control(app) {
  app.get("/seen", (_, res) => res.json({ ...seen, waiting: waits() }));
  app.post("/grant/:id", (req, res) => res.sendStatus(wake(req.params.id, "granted") ? 204 : 404));
}

// listen serves on a free port of the loopback interface and returns its URL.
export function listen(app) {
  const server = http.createServer(app);
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(0, "127.0.0.1", () => resolve(`http://127.0.0.1:${server.address().port}`));
  });
}

// ready tells the test where the servers are. Standard input is its life line: the
// process ends when the test's does, however that ends.
export function ready(where) {
  process.stdin.on("end", () => process.exit(0)).resume();
  console.log(JSON.stringify(where));
}
