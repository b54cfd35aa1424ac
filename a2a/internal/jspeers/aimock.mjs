// Two agents of aimock, a server that stands in for others in tests and takes the
// protocol lightly: artifacts have no ids, and a call that wants a stream of what it
// has no stream for gets a plain JSON error. Its streams are left alone, since they
// put artifacts where A2A has no place for them.

import { A2AMock } from "@copilotkit/aimock";
import { ready } from "./serving.mjs";

async function serve(streaming) {
  const mock = new A2AMock();
  mock.registerAgent({ name: "billing", description: "Answers questions about charges.", capabilities: { streaming } });
  mock.onMessage("billing", "message", [{ text: "Just words." }]);
  mock.onTask("billing", "task", [{ parts: [{ text: "All at once." }] }]);
  return mock.start();
}

ready({ url: await serve(true), unary: await serve(false) });
