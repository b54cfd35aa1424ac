// A client of the last release of the JavaScript SDK that spoke nothing but A2A 0.3,
// over JSON-RPC. Values are in the JSON of 0.3.

import { ClientFactory } from "a2a-js-0.3/client";
import { once, plainFetch, serveCalls } from "./calling.mjs";

const connect = once((card) => new ClientFactory().createFromUrl(card, ""));

const options = (to, signal) => ({ signal, serviceParameters: to.headers });
const unary = (method) => async (to, params, signal) => (await connect(to.card))[method](params, options(to, signal));
const streaming = unary; // what comes back is an iterator

serveCalls({
  async send(to, params, signal) {
    const result = await (await connect(to.card)).sendMessage(params, options(to, signal));
    return { [result.kind]: result };
  },
  stream: streaming("sendMessageStream"),
  subscribe: streaming("resubscribeTask"),
  get: unary("getTask"),
  cancel: unary("cancelTask"),
  createPush: unary("setTaskPushNotificationConfig"),
  getPush: unary("getTaskPushNotificationConfig"),
  listPush: unary("listTaskPushNotificationConfig"),
  deletePush: unary("deleteTaskPushNotificationConfig"),
  async extendedCard(to, _, signal) {
    return (await connect(to.card)).getAgentCard(options(to, signal));
  },
  fetch: plainFetch,
});
