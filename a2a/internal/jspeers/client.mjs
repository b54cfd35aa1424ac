// A client of the JavaScript SDK for A2A 1.0, and for 0.3 by its compatibility. A call
// goes to an agent, {card, binding, legacy}: the URL of its card, the binding to
// use, and whether the client may speak 0.3. Values are in the JSON of A2A 1.0.

import {
  AgentCard, CancelTaskRequest, DeleteTaskPushNotificationConfigRequest, GetTaskPushNotificationConfigRequest, GetTaskRequest,
  ListTaskPushNotificationConfigsRequest, ListTaskPushNotificationConfigsResponse, ListTasksRequest, ListTasksResponse, Message,
  SendMessageRequest, StreamResponse, SubscribeToTaskRequest, Task, TaskPushNotificationConfig, generateAgentCardSignature,
  verifyAgentCardSignature,
} from "@a2a-js/sdk";
import { ClientFactory, DefaultAgentCardResolver, JsonRpcTransportFactory, RestTransportFactory } from "@a2a-js/sdk/client";
import { GrpcTransportFactory } from "@a2a-js/sdk/client/grpc";
import { once, plainFetch, serveCalls } from "./calling.mjs";

const connect = once(async ({ card, binding, legacy }) => {
  const legacyCompat = { enabled: Boolean(legacy) };
  const factory = new ClientFactory({
    transports: {
      JSONRPC: [new JsonRpcTransportFactory({ legacyCompat })],
      "HTTP+JSON": [new RestTransportFactory({ legacyCompat })],
      GRPC: [new GrpcTransportFactory({ legacyCompat })],
    }[binding],
    cardResolver: new DefaultAgentCardResolver({ legacyCompat }),
  });
  if (!legacy) return factory.createFromUrl(card, "");
  // Who can speak 1.0 does so, unless the card has nothing but 0.3.
  const { supportedInterfaces, ...old } = await (await fetch(card)).json();
  return factory.createFromAgentCard(old);
});

const options = (to, signal) => ({ signal, serviceParameters: to.headers });

// unary makes an op of a client's method, with the types of what goes in and out.
const unary = (method, In, Out) => async (to, params, signal) => {
  const client = await connect({ card: to.card, binding: to.binding, legacy: to.legacy });
  const result = await client[method](In.fromJSON(params), options(to, signal));
  return Out?.toJSON(result);
};

const streaming = (method, In) => async (to, params, signal) => {
  const client = await connect({ card: to.card, binding: to.binding, legacy: to.legacy });
  return (async function* () {
    for await (const event of client[method](In.fromJSON(params), options(to, signal))) yield StreamResponse.toJSON(event);
  })();
};

const SendResult = { toJSON: (r) => ("messageId" in r ? { message: Message.toJSON(r) } : { task: Task.toJSON(r) }) };

serveCalls({
  send: unary("sendMessage", SendMessageRequest, SendResult),
  stream: streaming("sendMessageStream", SendMessageRequest),
  subscribe: streaming("resubscribeTask", SubscribeToTaskRequest),
  get: unary("getTask", GetTaskRequest, Task),
  list: unary("listTasks", ListTasksRequest, ListTasksResponse),
  cancel: unary("cancelTask", CancelTaskRequest, Task),
  createPush: unary("createTaskPushNotificationConfig", TaskPushNotificationConfig, TaskPushNotificationConfig),
  getPush: unary("getTaskPushNotificationConfig", GetTaskPushNotificationConfigRequest, TaskPushNotificationConfig),
  listPush: unary("listTaskPushNotificationConfig", ListTaskPushNotificationConfigsRequest, ListTaskPushNotificationConfigsResponse),
  deletePush: unary("deleteTaskPushNotificationConfig", DeleteTaskPushNotificationConfigRequest),
  async extendedCard(to, _, signal) {
    const client = await connect({ card: to.card, binding: to.binding, legacy: to.legacy });
    return AgentCard.toJSON(await client.getAgentCard(options(to, signal)));
  },
  // verify checks a card against a JSON web key: the document as it came, or what the
  // SDK's types make of it, as its clients have it.
  async verify(_, { card, jwk, parsed }) {
    await verifyAgentCardSignature(async () => jwk)(parsed ? AgentCard.fromJSON(card) : card);
  },
  async sign(_, { card, jwk, header, parsed }) {
    const signed = await generateAgentCardSignature(jwk, header)(parsed ? AgentCard.fromJSON(card) : card);
    return parsed ? AgentCard.toJSON(signed) : signed;
  },
  fetch: plainFetch,
});
