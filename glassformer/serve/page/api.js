// Requests to the server that this page came from; responses are JSON or numbers.

import { translate } from "./translations.js";

async function post(name, body) {
  const options = { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
  const response = await fetch(`api/${name}`, options).catch(() => {
    throw new Error(translate("noServer"));
  });
  if (!response.ok) throw new Error((await response.json()).error);
  return response;
}

export async function requestJson(name, body = {}) {
  return (await post(name, body)).json();
}

export async function requestBytes(name, body) {
  return (await post(name, body)).arrayBuffer();
}

export async function requestNumbers(name, body) {
  return new Float32Array(await requestBytes(name, body));
}
