// Prints the vector that ../vector.json holds.
import { Webhook } from "standardwebhooks";

const secret = "whsec_" + Buffer.from("a secret of thirty-two bytes, ok").toString("base64");
const id = "msg_1", at = 1735689600;
const body = '{"type":"handoff.event","data":{"id":"e1","handoffId":"h","session":{"app":"app","user":"ann","id":"s"},"text":"Grüße ☎"}}';
const signature = new Webhook(secret).sign(id, new Date(at * 1000), body);
console.log(JSON.stringify({ secret, id, timestamp: at, body, signature }));
